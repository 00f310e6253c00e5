package meta

// BoardsLogFormat is the form of the log of a cluster from which on the log may have changes of boards.
const BoardsLogFormat = 2

// NeedsLogFormat returns the form in which a cluster must write its log to have a command: members
// that read only an earlier one do not know the command.
func NeedsLogFormat(cmd Command) uint8 {
	switch cmd.(type) {
	case PutBoard, DropBoard:
		return BoardsLogFormat
	}
	return 1
}

// SetLogFormat has the log of a cluster be written in a newer form, which all nodes read.
// It never goes back: the log has entries of that form.
type SetLogFormat struct{ Format uint8 }

func (c SetLogFormat) apply(d *Data) (bool, error) {
	if c.Format <= d.LogFormat {
		return false, nil
	}
	d.LogFormat = c.Format
	return true, nil
}
