package meta

import (
	"strings"
	"testing"
)

func TestPassword(t *testing.T) {
	hash, err := HashPassword("sécret")
	if err != nil {
		t.Fatal(err)
	}
	again, err := HashPassword("sécret")
	if err != nil || again == hash {
		t.Errorf("two hashes are the same, %v", err)
	}
	if !CheckPassword(hash, "sécret") || CheckPassword(hash, "secret") || CheckPassword(hash, "") {
		t.Error("the check is wrong")
	}
	parts := strings.Split(hash, "$")
	for _, bad := range []string{"", "x", "$$$", "pbkdf2-sha256$1", "md5$" + strings.Join(parts[1:], "$"),
		parts[0] + "$0$" + parts[2] + "$" + parts[3], parts[0] + "$99999999999$" + parts[2] + "$" + parts[3],
		parts[0] + "$1$%$" + parts[3], parts[0] + "$1$" + parts[2] + "$", parts[0] + "$1$" + parts[2] + "$%"} {
		if CheckPassword(bad, "sécret") || CheckPassword(bad, "") {
			t.Errorf("hash %q accepts a password", bad)
		}
	}
}

// The vector is RFC 7914's (section 11) for PBKDF2-HMAC-SHA256: passwd, salt.
func TestPasswordVector(t *testing.T) {
	const hash = "pbkdf2-sha256$1$c2FsdA$VawEblbjCJ/sFpHCJUS2BflBhSFt3gRl5oudV8INrLxJypzM8Xm2RZkWZLOdd+8xfHG4RbHjC9UJESBB06GXgw"
	if !CheckPassword(hash, "passwd") || CheckPassword(hash, "password") {
		t.Error("the key derivation is not PBKDF2")
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
