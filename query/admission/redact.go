package admission

import (
	"regexp"
	"strings"
)

// urlPassword finds the password of a URL, such as a subscription's destination.
var urlPassword = regexp.MustCompile(`(://[^\s/:@'"]*):[^\s'"]*@`)

// RedactURLs hides the passwords of URLs in a text of statements, which is shown
// and logged. Those of users are hidden by String of the statements.
func RedactURLs(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return urlPassword.ReplaceAllString(text, "${1}:[REDACTED]@")
}
