package collectd

import (
	"bufio"
	"crypto/aes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"os"
	"strings"
)

// Level is the protection that packets must have.
type Level int

// The levels. Each accepts what the following ones accept.
const (
	None    Level = iota // all packets
	Sign                 // signed and encrypted packets
	Encrypt              // encrypted packets
)

// ParseLevel reads a level's name; "" is none.
func ParseLevel(name string) (Level, error) {
	switch strings.ToLower(name) {
	case "", "none":
		return None, nil
	case "sign":
		return Sign, nil
	case "encrypt":
		return Encrypt, nil
	}
	return None, fmt.Errorf("security level is none, sign or encrypt, not %q", name)
}

// ReadUsers reads an auth file: lines "user: password".
func ReadUsers(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read auth file: %w", err)
	}
	defer f.Close()
	users, err := readUsers(f)
	if err != nil {
		return nil, fmt.Errorf("read auth file %s: %w", path, err)
	}
	return users, nil
}

func readUsers(r io.Reader) (map[string]string, error) {
	users := map[string]string{}
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		user, password, ok := strings.Cut(line, ":")
		user, password = strings.TrimSpace(user), strings.TrimSpace(password)
		if !ok || user == "" || password == "" {
			return nil, fmt.Errorf("line %d is not user: password", n) // without the line: it may hold a password
		}
		users[user] = password
	}
	return users, s.Err()
}

// macBytes, ivBytes and sumBytes are the lengths of a signature, an
// initialization vector and the checksum inside of what is encrypted.
const (
	macBytes = sha256.Size
	ivBytes  = aes.BlockSize
	sumBytes = sha1.Size
)

// verify reports whether a signature part, without its header, is right for the
// rest of the packet.
//
//	mac 32 | user
func (d *decoder) verify(part, rest []byte) bool {
	if len(part) < macBytes {
		return false
	}
	user := part[macBytes:]
	password, ok := d.users[string(user)]
	if !ok {
		return false
	}
	mac := hmac.New(sha256.New, []byte(password))
	mac.Write(user)
	mac.Write(rest)
	return hmac.Equal(mac.Sum(nil), part[:macBytes])
}

// decrypt returns the parts inside of an encrypted part without its header.
//
//	user length 2 | user | iv 16 | encrypted (sha-1 20 | parts)
func (d *decoder) decrypt(part []byte) ([]byte, bool) {
	if len(part) < 2 {
		return nil, false
	}
	n := int(part[0])<<8 | int(part[1])
	part = part[2:]
	if len(part) < n+ivBytes+sumBytes {
		return nil, false
	}
	password, ok := d.users[string(part[:n])]
	if !ok {
		return nil, false
	}
	key := sha256.Sum256([]byte(password))
	plain := outputFeedback(key, part[n:n+ivBytes], part[n+ivBytes:])
	sum := sha1.Sum(plain[sumBytes:])
	if subtle.ConstantTimeCompare(sum[:], plain[:sumBytes]) != 1 {
		return nil, false
	}
	return plain[sumBytes:], true
}

// outputFeedback encrypts or decrypts with AES-256, which is the same: it encrypts the
// initialization vector repeatedly and xors the text with the results.
func outputFeedback(key [sha256.Size]byte, iv, text []byte) []byte {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // a key of 32 bytes is of a right length
	}
	out := make([]byte, len(text))
	var stream [ivBytes]byte
	copy(stream[:], iv)
	for i := 0; i < len(text); i += ivBytes {
		block.Encrypt(stream[:], stream[:])
		subtle.XORBytes(out[i:], text[i:], stream[:])
	}
	return out
}
