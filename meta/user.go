package meta

import (
	"fmt"
	"unicode"
)

// Privilege is what a user may do with a database, as a set of bits.
type Privilege uint8

// The privileges.
const (
	NoPrivileges   Privilege = 0
	ReadPrivilege  Privilege = 1
	WritePrivilege Privilege = 2
	AllPrivileges  Privilege = 3
)

// String returns the name clients see.
func (p Privilege) String() string {
	switch p {
	case NoPrivileges:
		return "NO PRIVILEGES"
	case ReadPrivilege:
		return "READ"
	case WritePrivilege:
		return "WRITE"
	case AllPrivileges:
		return "ALL PRIVILEGES"
	}
	return fmt.Sprintf("Privilege(%d)", uint8(p))
}

// User is a login with its grants.
type User struct {
	Name string
	// Hash is the password's, made by HashPassword before the command: hashes
	// are salted, and commands must be deterministic.
	Hash  string
	Admin bool
	// Privileges by database name.
	Privileges map[string]Privilege `json:",omitempty"`
}

// Authorized reports whether the user may do p with the database.
func (u *User) Authorized(p Privilege, database string) bool {
	return u.Admin || u.Privileges[database]&p == p
}

func notPrintable(r rune) bool { return !unicode.IsPrint(r) }
