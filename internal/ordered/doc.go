// Package ordered has the locks of store and shard, and the order in which one
// goroutine takes them. A Mutex is a sync.Mutex. Built with the tag invariants it
// panics when a goroutine takes a lock whose rank is not above those of the locks it
// holds, so the tests show that the order holds.
package ordered

// Rank is a place in the order. A goroutine that holds a lock takes only locks of a
// higher rank. A lock without a rank is not looked at.
type Rank int

// The order. Locks that are not here are leaves: their owners call nothing that takes
// another one.
const (
	StoreFlushing   Rank = iota + 1 // one flush or backup cut at a time
	StoreDeleting                   // shared by deletes, exclusive for a backup that they would not let end
	StoreGate                       // shared by writes from check to apply, exclusive for deletes and catalog changes
	StoreChanging                   // one change of the catalog is decided, logged and applied at a time
	StoreRemoving                   // one removal of what was dropped at a time
	StoreOpening                    // one opening of a database or shard at a time
	StoreApplying                   // one log entry at a time
	StoreViewing                    // shared while the shards of a view are taken, exclusive while a move is applied
	StoreAdmitting                  // new series of a limited database are admitted
	StoreMaps                       // databases and shards of a store
	ShardFlushing                   // one flush of a shard at a time
	ShardCompacting                 // one merge of a shard at a time
	ShardWriting                    // one change of a shard's manifest at a time
	ShardState                      // files and caches of a shard
)
