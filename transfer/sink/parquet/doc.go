// Package parquet writes exported rows as a directory of Parquet files.
//
// Each measurement of a shard is a file, DATABASE/POLICY/MEASUREMENT/START.parquet, where
// START is the begin of the shard. Its columns are time, the tags as texts, and the fields
// with their types. What a row lacks is NULL. A tag that has the name of a field gets the
// suffix _tag. Rows come series by series. All files of a measurement have the columns of
// all its shards that are exported, so that readers can take the files together. Only a
// field whose type differs from shard to shard has the type of the shard.
//
// A file has its name only when it is complete and synced, and no file that is there is
// replaced. A row group ends at 1,048,576 rows or 64 MiB, which bounds the memory.
package parquet
