package meta

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// passwordCost is bcrypt's, and InfluxDB's: about 50 ms a check
// (BenchmarkCheckPassword). It stands in the hash, so it can be raised.
const passwordCost = bcrypt.DefaultCost

// maxPasswordBytes is what bcrypt looks at. A longer password is refused: if it
// were cut, all that begin alike would be the same.
const maxPasswordBytes = 72

// The passwords that cannot be stored.
var (
	ErrPasswordTooLong = fmt.Errorf("password is longer than %d bytes", maxPasswordBytes)
	ErrPasswordInvalid = errors.New("password contains a zero byte")
)

// checkPasswordText refuses what bcrypt does not tell apart: it repeats the
// password with a zero byte after it, so "a" and "a\x00a" are the same to it.
func checkPasswordText(password string) error {
	switch {
	case len(password) > maxPasswordBytes:
		return ErrPasswordTooLong
	case strings.IndexByte(password, 0) >= 0:
		return ErrPasswordInvalid
	}
	return nil
}

// HashPassword returns a salted bcrypt hash of a password, different at each
// call. It is slow on purpose. The errors are ErrPasswordTooLong and
// ErrPasswordInvalid.
func HashPassword(password string) (string, error) {
	if err := checkPasswordText(password); err != nil {
		return "", err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), passwordCost)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return string(hash), nil
}

// CheckPassword reports whether hash was made of password. It takes as long as
// HashPassword, in a time that does not depend on how much of the password is
// right, nor on whether one like it could have been stored. A hash of another
// scheme matches nothing.
func CheckPassword(hash, password string) bool {
	legal := checkPasswordText(password) == nil
	if !legal {
		password = ""
	}
	return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil && legal
}
