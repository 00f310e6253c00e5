package meta

import "errors"

// The errors a caller branches on with errors.Is. Their texts are those of
// InfluxDB 1.x; where a name belongs to the text it follows after a colon.
var (
	ErrDatabaseNotFound = errors.New("database not found")
	ErrInvalidName      = errors.New("invalid name")
	ErrNameTooLong      = errors.New("name too long")
	ErrUsernameRequired = errors.New("username required")
	ErrIndexChanged     = errors.New("catalog has changed")
	ErrCatalogMissing   = errors.New("catalog files are missing")
	// ErrTorn is of a copy that ends in a record that is not whole, as a crash or a full
	// disk leaves it.
	ErrTorn = errors.New("the last change is not whole")

	ErrRetentionPolicyNotFound       = errors.New("retention policy not found")
	ErrRetentionPolicyExists         = errors.New("retention policy already exists")
	ErrRetentionPolicyConflict       = errors.New("retention policy conflicts with an existing policy")
	ErrRetentionPolicyDurationTooLow = errors.New("retention policy duration must be at least 1h0m0s")
	ErrIncompatibleDurations         = errors.New("retention policy duration must be greater than the shard duration")
	ErrReplicationFactorTooLow       = errors.New("replication factor must be greater than 0")

	ErrShardGroupNotFound = errors.New("shard group not found")
	ErrShardNotFound      = errors.New("shard not found")
	ErrTimeOutOfRange     = errors.New("time outside range")

	ErrUserExists   = errors.New("user already exists")
	ErrUserNotFound = errors.New("user not found")

	ErrContinuousQueryExists   = errors.New("continuous query already exists")
	ErrContinuousQueryNotFound = errors.New("continuous query not found")

	ErrDownsampleExists   = errors.New("downsample already exists")
	ErrDownsampleNotFound = errors.New("downsample not found")
	ErrDownsampleInvalid  = errors.New("invalid downsample")
	ErrDownsampleWaits    = errors.New("windows of a downsample are not computed yet")

	// ErrLogFormat is of a change that members of a cluster may not know.
	ErrLogFormat = errors.New("the cluster writes its log for older programs, which do not know this change: when all nodes run this version, run tsdbd cluster finish-upgrade")

	ErrBoardNotFound = errors.New("board not found")
	ErrBoardInvalid  = errors.New("invalid board")
	ErrBoardTooLarge = errors.New("board is too large")
	ErrTooManyBoards = errors.New("too many boards")

	ErrSubscriptionExists   = errors.New("subscription already exists")
	ErrSubscriptionNotFound = errors.New("subscription not found")
)
