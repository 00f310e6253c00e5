package httpapi

// ExecuteOptions say how statements are run.
type ExecuteOptions struct {
	Database, RetentionPolicy string
	ReadOnly, Chunked         bool
	ChunkSize                 int
}
