package meta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"tsdbd/internal/binio"
)

// A command in the log is a byte with the version of this form and a JSON
// document:
//
//	{"Command": its name, "After": the counters, "Body": its fields}
const (
	changeVersion = 2
	changeFormat  = "change of the catalog"
)

// Change is a command as the log has it: with what the catalog had counted when
// the command was accepted.
type Change struct {
	Command Command
	After   Counters
}

// Counters are what a catalog counts.
type Counters struct {
	Index             uint64
	Database          uint32
	ShardGroup, Shard uint64
}

func (d *Data) counters() Counters {
	return Counters{d.Index, d.LastDatabaseID, d.LastShardGroupID, d.LastShardID}
}

// commandOf returns the type of the commands of that name.
func commandOf(name string) (reflect.Type, bool) {
	for _, cmd := range []Command{
		CreateDatabase{},
		DropDatabase{},
		CreateRetentionPolicy{},
		AlterRetentionPolicy{},
		DropRetentionPolicy{},
		CreateShardGroup{},
		CreateShardGroups{},
		DropShardGroup{},
		DropShard{},
		CreateUser{},
		SetPassword{},
		SetAdmin{},
		SetPrivilege{},
		DropUser{},
		CreateContinuousQuery{},
		DropContinuousQuery{},
		SetContinuousRuns{},
		CreateDownsample{},
		AlterDownsample{},
		DropDownsample{},
		CompleteWindows{},
		PutBoard{},
		DropBoard{},
		CreateSubscription{},
		DropSubscription{},
		AcceptLoss{},
		SetLogFormat{},
	} {
		if t := reflect.TypeOf(cmd); t.Name() == name {
			return t, true
		}
	}
	return nil, false
}

type changeFile struct {
	Command string
	After   Counters
	Body    json.RawMessage
}

// EncodeCommand returns the bytes of a command that was accepted with this
// catalog.
func EncodeCommand(cmd Command, data *Data) ([]byte, error) {
	return (&Change{cmd, data.counters()}).encode()
}

func (c *Change) encode() ([]byte, error) {
	body, err := json.Marshal(c.Command)
	if err != nil {
		return nil, fmt.Errorf("encode command: %w", err)
	}
	b, err := json.Marshal(changeFile{reflect.TypeOf(c.Command).Name(), c.After, body})
	if err != nil {
		return nil, fmt.Errorf("encode command: %w", err)
	}
	return append([]byte{changeVersion}, b...), nil
}

// DecodeCommand reads what EncodeCommand made. A command of another version, with another
// name, or with other fields is a binio.ErrVersion: its bytes have been under a checksum.
// Everything else that cannot be read is a *binio.CorruptError.
func DecodeCommand(b []byte) (*Change, error) {
	if len(b) == 0 {
		return nil, binio.Corruptf("", -1, "command without content")
	}
	if b[0] != changeVersion {
		return nil, binio.CheckVersion("", changeFormat, uint64(b[0]), changeVersion)
	}
	var f changeFile
	if err := decodeStrict(b[1:], &f); err != nil {
		return nil, notDecoded("command", err)
	}
	t, ok := commandOf(f.Command)
	if !ok {
		return nil, binio.Unknown("", changeFormat, fmt.Sprintf("command %q", f.Command))
	}
	cmd := reflect.New(t)
	if err := decodeStrict(f.Body, cmd.Interface()); err != nil {
		return nil, notDecoded("command "+f.Command, err)
	}
	return &Change{cmd.Elem().Interface().(Command), f.After}, nil
}

// notDecoded returns the error of a document that decodeStrict refuses.
func notDecoded(what string, err error) error {
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok { // the package has no type for it
		return binio.Unknown("", changeFormat, what+" with the field "+field)
	}
	return binio.Corruptf("", -1, "%s: %v", what, err)
}

// decodeStrict refuses fields that this program does not know: what they ask for
// would be left undone.
func decodeStrict(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("bytes after the document")
	}
	return nil
}

// Apply returns the catalog after the change that the log has at sequence, in any
// case one that has applied sequence. missing says that changes before it have been lost with entries of the
// log. The ids that these gave are not given again: the log has entries that mean
// them.
func (c *Change) Apply(sequence uint64, data *Data) (next *Data, missing bool, err error) {
	base := *data
	base.Applied = sequence
	if missing = base.Index < c.After.Index; missing {
		base.Index = c.After.Index
		base.LastDatabaseID = max(base.LastDatabaseID, c.After.Database)
		base.LastShardGroupID = max(base.LastShardGroupID, c.After.ShardGroup)
		base.LastShardID = max(base.LastShardID, c.After.Shard)
	}
	next, err = Apply(c.Command, &base)
	if err != nil {
		return &base, missing, err
	}
	return next, missing, nil
}
