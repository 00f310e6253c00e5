package wal

// Damage is a span of a segment that Replay could not deliver.
type Damage struct {
	Segment string // path of the segment file
	Offset  int64  // first byte of the span
	Bytes   int64  // length of the span; 0 when only the absence of entries was noticed
	// Torn is true when the span lies in the last write of the log and looks
	// as a crash during that write leaves it: nothing acknowledged was in it,
	// as far as the log shows. False means that data which was once whole is lost.
	Torn bool
	// First and Last are the sequences of the entries that may be lost. A Last
	// below First says that none is, maxSequence that the end is not known.
	First, Last uint64
	// Harmless says that no entry is lost that the owner needs: there was none in
	// the span, or published files have them; see Known.Covered.
	Harmless   bool
	Reason     string
	Quarantine string // path of the copy of the span, "" when none was made. Where there is no span it is a text
}
