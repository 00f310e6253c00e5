package names

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"tsdbd/internal/object"
)

const (
	ownersDir     = Dir + "/owner"
	maxOwnerBytes = 4 << 10
)

// Owner says whose a cold store is.
type Owner struct {
	ID    string    `json:"id"` // of a data directory or a cluster
	Node  string    `json:"node"`
	Since time.Time `json:"since"`
}

// ErrForeign is returned by Claim for a store of another server.
var ErrForeign = errors.New("cold store of another server")

// Claim makes a store that nobody has the owner's. It returns an ErrForeign if it is that of
// another one, unless take is set: then it is the owner's from now on, and the other one
// finds that out before it uploads or removes anything. It returns the number of the owner:
// later ones have greater numbers.
func Claim(ctx context.Context, s object.Store, o Owner, take bool) (uint64, error) {
	for {
		newest, have, err := owner(ctx, s)
		switch {
		case err != nil:
			return 0, err
		case newest > 0 && have.ID == o.ID:
			return newest, nil
		case newest > 0 && !take:
			return 0, fmt.Errorf("%w: it belongs to %s since %s, whose id is %s, and this one is %s: use another prefix, or tsdbd cold claim if that server is gone",
				ErrForeign, have.Node, have.Since.UTC().Format(time.RFC3339), have.ID, o.ID)
		}
		b, err := json.Marshal(o)
		if err != nil {
			return 0, err
		}
		err = s.Put(ctx, fmt.Sprintf("%s/%016x", ownersDir, newest+1), object.Content{Bytes: b})
		if err != nil && !errors.Is(err, object.ErrExists) {
			return 0, err
		}
		// Whoever was first is the owner: look again.
	}
}

// OwnerID returns the id of whose a store is, "" if it is nobody's.
func OwnerID(ctx context.Context, s object.Store) (string, error) {
	_, o, err := owner(ctx, s)
	return o.ID, err
}

// owner returns the newest owner, and its number, 0 if there is none.
func owner(ctx context.Context, s object.Store) (newest uint64, o Owner, err error) {
	infos, err := s.List(ctx, ownersDir)
	if err != nil {
		return 0, o, err
	}
	key := ""
	for _, i := range infos {
		if n, err := strconv.ParseUint(path.Base(i.Name), 16, 64); err == nil && n > newest {
			newest, key = n, i.Name
		}
	}
	if newest == 0 {
		return 0, o, nil
	}
	b, err := object.Read(ctx, s, key, maxOwnerBytes)
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		return 0, o, fmt.Errorf("owner of the cold store: %w", err)
	}
	return newest, o, nil
}
