package meta

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"tsdbd/internal/testkit/testseed"
)

func TestPassword(t *testing.T) {
	if testseed.Race {
		t.Skip("ten seconds of one goroutine in bcrypt")
	}
	hash, err := HashPassword("sécret")
	if err != nil {
		t.Fatal(err)
	}
	again, err := HashPassword("sécret")
	if err != nil || again == hash {
		t.Errorf("two hashes are the same, %v", err)
	}
	if cost, err := bcrypt.Cost([]byte(hash)); err != nil || cost < 10 {
		t.Errorf("cost %d %v", cost, err)
	}
	if !CheckPassword(hash, "sécret") || CheckPassword(hash, "secret") || CheckPassword(hash, "") {
		t.Error("the check is wrong")
	}
	for _, bad := range []string{"", "x", "$2a$10$", hash[:len(hash)-1], "$9z" + hash[3:], strings.Repeat("$", 60)} {
		if CheckPassword(bad, "sécret") || CheckPassword(bad, "") {
			t.Errorf("hash %q accepts a password", bad)
		}
	}
}

// A hash of another bcrypt, InfluxDB's users among them, is checked too. The
// vector is from the test suite of OpenWall's crypt_blowfish.
func TestPasswordVector(t *testing.T) {
	const hash = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	if !CheckPassword(hash, "U*U") || CheckPassword(hash, "U*U*") {
		t.Error("the hash is not bcrypt's")
	}
}

func TestPasswordsThatBcryptConfuses(t *testing.T) {
	if testseed.Race {
		t.Skip("ten seconds of one goroutine in bcrypt")
	}
	long := strings.Repeat("a", 72)
	if _, err := HashPassword(long + "b"); !errors.Is(err, ErrPasswordTooLong) {
		t.Errorf("73 bytes: %v", err)
	}
	if _, err := HashPassword("a\x00a"); !errors.Is(err, ErrPasswordInvalid) {
		t.Errorf("zero byte: %v", err)
	}
	hash, err := HashPassword(long)
	if err != nil || !CheckPassword(hash, long) || CheckPassword(hash, long+"b") || CheckPassword(hash, long[1:]) {
		t.Errorf("72 bytes: %v", err)
	}
	hash, err = HashPassword("a")
	if err != nil || CheckPassword(hash, "a\x00a") || CheckPassword(hash, "a\x00") {
		t.Errorf("zero byte in a check: %v", err)
	}
	hash, err = HashPassword("")
	if err != nil || !CheckPassword(hash, "") || CheckPassword(hash, long+"b") || CheckPassword(hash, "\x00") {
		t.Errorf("a password that cannot be passes for the empty one: %v", err)
	}
}

func BenchmarkCheckPassword(b *testing.B) {
	hash, err := HashPassword("secret")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !CheckPassword(hash, "secret") {
			b.Fatal("wrong")
		}
	}
}
