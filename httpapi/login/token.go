package login

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// maxTokenBytes bounds a token. A normal one has about 200 bytes.
const maxTokenBytes = 8 << 10

// maxExpiration is the end of the year 9999, the last second that time.Time formats.
// A later exp is not a time.
const maxExpiration = 253402300799

// tokens checks JSON web tokens. It accepts only HMAC signatures: otherwise the token
// would choose how it is checked.
type tokens struct {
	secret []byte
	parser *jwt.Parser
}

func newTokens(secret string) *tokens {
	return &tokens{secret: []byte(secret), parser: jwt.NewParser(
		jwt.WithValidMethods([]string{"HS256", "HS384", "HS512"}), jwt.WithJSONNumber(),
		jwt.WithTimeFunc(time.Now),
	)}
}

// user returns the user of a token. If the signature is wrong, the error says
// nothing else about the token.
func (t *tokens) user(token string) (string, error) {
	if len(t.secret) == 0 {
		return "", errBearerDisabled // anyone can sign with an empty secret
	}
	if len(token) > maxTokenBytes {
		return "", errToken
	}
	claims := jwt.MapClaims{}
	_, err := t.parser.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return t.secret, nil })
	switch {
	case err == nil:
	case errors.Is(err, jwt.ErrTokenUnverifiable), errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenMalformed):
		return "", errToken
	case errors.Is(err, jwt.ErrTokenExpired) && plausibleExpiration(claims):
		return "", errTokenExpired
	case errors.Is(err, jwt.ErrTokenInvalidClaims):
		if !plausibleExpiration(claims) {
			return "", errTokenExpiration
		}
		return "", errToken
	default:
		return "", errToken
	}
	if !plausibleExpiration(claims) {
		return "", errTokenExpiration
	}
	name, ok := claims["username"]
	if !ok {
		return "", errTokenNoUser
	}
	text, ok := name.(string)
	if !ok {
		return "", errTokenUserType
	}
	if text == "" {
		return "", errTokenNoUser
	}
	return text, nil
}

// plausibleExpiration reports whether exp is there and is a time.
func plausibleExpiration(claims jwt.MapClaims) bool {
	n, ok := claims["exp"].(json.Number)
	if !ok {
		return false
	}
	f, err := n.Float64()
	return err == nil && f > 0 && f <= maxExpiration
}
