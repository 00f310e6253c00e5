package config

import (
	"errors"
	"log/slog"
)

// redacted is shown instead of a secret.
const redacted = "[REDACTED]"

// Secret is a setting that is never shown: not printed, not logged.
type Secret struct {
	text  string
	given bool
}

// errEmptySecret keeps a variable that was never set from passing for a secret.
var errEmptySecret = errors.New("http.shared-secret is given and empty: put a secret, or leave the key out and no bearer token is taken")

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return s.text }

// UnmarshalText reads a secret. It does not accept the text that is printed
// instead of a secret: a server with a secret that everyone knows would be open.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == redacted {
		return errors.New("the value is the placeholder that `tsdbd config` prints; replace it with the secret")
	}
	*s = Secret{string(text), true}
	return nil
}

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String hides the secret; an empty one is shown.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the secret from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
