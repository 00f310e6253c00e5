package main

import "tsdbd/store"

// engine is the store as the API and the query executor see it.
type engine struct{ *store.Store }

// RetentionPolicy returns the name of the policy that writes to rp go to.
func (e engine) RetentionPolicy(db, rp string) (string, error) {
	p, err := e.Catalog().RetentionPolicy(db, rp)
	if err != nil {
		return "", err
	}
	return p.Name, nil
}
