package meta

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
