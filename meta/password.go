package meta

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// A password hash is "pbkdf2-sha256$iterations$salt$key", salt and key in
// base64 without padding. The scheme stands in front so that others can follow.
const (
	passwordScheme = "pbkdf2-sha256"
	// passwordIterations costs about as much as the bcrypt of InfluxDB, 75 ms
	// (BenchmarkCheckPassword): clients send the password with each request.
	// It stands in the hash, so it can be raised.
	passwordIterations = 120_000
	passwordSaltBytes  = 16
	passwordKeyBytes   = 32
	// maxPasswordIterations bounds what a hash read from a file may cost.
	maxPasswordIterations = 10_000_000
)

// HashPassword returns a salted hash of a password, different at each call.
// It is slow on purpose.
func HashPassword(password string) (string, error) {
	salt := make([]byte, passwordSaltBytes)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	key, err := pbkdf2.Key(sha256.New, password, salt, passwordIterations, passwordKeyBytes)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	encode := base64.RawStdEncoding.EncodeToString
	return strings.Join([]string{passwordScheme, strconv.Itoa(passwordIterations), encode(salt), encode(key)}, "$"), nil
}

// CheckPassword reports whether hash was made of password. It takes as long as
// HashPassword, in a time that does not depend on how much of the password is
// right. A hash of another scheme matches nothing.
func CheckPassword(hash, password string) bool {
	parts := strings.Split(hash, "$")
	if len(parts) != 4 || parts[0] != passwordScheme {
		return false
	}
	iterations, err := strconv.Atoi(parts[1])
	if err != nil || iterations < 1 || iterations > maxPasswordIterations {
		return false
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[3])
	if err != nil || len(want) == 0 || len(want) > 64 {
		return false
	}
	key, err := pbkdf2.Key(sha256.New, password, salt, iterations, len(want))
	return err == nil && subtle.ConstantTimeCompare(key, want) == 1
}
