package wal

// Shrink gives disk space back while the log is idle: entries up to sequence
// are no longer needed, so the active segment is closed in favour of a small
// one, and segments, spares and the prepared segment are removed rather than
// kept. The log grows again as it did at its beginning. It may run beside
// Append.
func (l *Log) Shrink(sequence uint64) error {
	if !l.replayed.Load() {
		return errNotReplayed
	}
	small := l.firstSize()
	l.files.Lock()
	idle := l.files.activeSize <= small && len(l.files.spares) == 0 && len(l.files.closed) == 0
	l.files.freshSize = small
	l.files.Unlock()
	if idle {
		return nil
	}
	l.removeLarge()
	if err := l.Rotate(); err != nil {
		return err
	}
	if err := l.Trim(sequence); err != nil {
		return err
	}
	l.removeLarge()
	return nil
}

// removeLarge removes all spares and a prepared segment above the first size.
func (l *Log) removeLarge() {
	l.files.Lock()
	for l.files.preparing {
		l.files.prepared.Wait()
	}
	spares := l.files.spares
	l.files.spares = nil
	var next *openFile
	if l.files.next != nil && l.files.next.size > l.firstSize() {
		next, l.files.next = l.files.next, nil
	}
	l.files.Unlock()
	if next != nil {
		_ = next.file.Close()
		spares = append(spares, spare{path: next.path, size: next.size})
	}
	for _, s := range spares {
		if err := l.fs.Remove(s.path); err != nil {
			l.log.Warn("wal spare segment not removed", "path", s.path, "err", err)
		}
	}
}
