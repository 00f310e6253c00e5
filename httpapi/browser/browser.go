// Package browser refuses requests that web pages let browsers send, if they would do
// harm.
//
// A browser sends the requests of any page to any server that it reaches, and adds the
// login that it keeps for that server. Three rules protect the server:
//
//   - A page of another origin changes nothing. A request names its page in the headers
//     Sec-Fetch-Site or Origin.
//   - A GET request changes nothing for a page, because a browser does not always say
//     which page a GET request is for: it sends Sec-Fetch-Site only to https and to
//     the machine itself.
//   - Without logins, a page changes nothing under a name of the server that the server
//     does not know. The owner of a name can load a page into a browser, and then let
//     the name point to the address of the server (DNS rebinding). Page and server then
//     have the same origin.
//
// Requests of programs pass, because they lack the headers of browsers. Requests of pages
// whose origins the operator lists pass too.
//
// A Filter is safe for concurrent use.
package browser

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Options configure a Filter.
type Options struct {
	// Origins are the origins whose pages may do what they want; "*": all.
	Origins []string
	// Hosts are names of the server, in addition to those that a page of the internet
	// cannot have. If there are any, requests of pages that only read need a known
	// name too.
	Hosts []string
	// Machine is the name of the machine.
	Machine string
	// Logins says that requests need a login. Then the name of the server is any.
	Logins bool
}

// Filter refuses requests of browsers.
type Filter struct {
	opt   Options
	cross http.CrossOriginProtection
}

// New returns a Filter.
func New(opt Options) *Filter { return &Filter{opt: opt} }

// Refusal is why a request is refused.
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// proxies is the end of every Refusal: a proxy may have hidden what the request was.
const proxies = "; a proxy must pass on the name that the browser asked for (nginx: proxy_set_header Host $http_host;)"

// Check returns a Refusal, or nil if a request may pass. changes says whether the request
// changes something.
func (f *Filter) Check(r *http.Request, changes bool) error {
	origin := originOf(r.Header)
	if f.Trusts(origin) {
		return nil
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if changes && (origin != "" || site != "") {
		post := &http.Request{Method: http.MethodPost, Host: r.Host, Header: http.Header{"Sec-Fetch-Site": {site}}}
		if origin != "" {
			post.Header.Set("Origin", origin)
		}
		if f.cross.Check(post) != nil {
			return Refusal(fmt.Sprintf("a web page of another origin (%.100s) may not change anything: http.allowed-origins lists the origins that may", cmp.Or(origin, "unknown")) + proxies)
		}
	}
	seen := byBrowser(r.Header)
	if changes && seen && r.Method == http.MethodGet && site != "same-origin" && site != "none" {
		return Refusal("a browser may not change anything by GET, because any web page can let it send that: use POST, or list the origin of the page in http.allowed-origins" + proxies)
	}
	if (changes || len(f.opt.Hosts) > 0) && !f.opt.Logins && (seen || hidden(r)) && !f.knows(r.Host) {
		return Refusal(fmt.Sprintf("a web page may not use this server as %.100q, because anyone may have let that name point here: list the name in http.allowed-hosts, or require logins (http.auth-enabled)", r.Host) + proxies)
	}
	return nil
}

// originOf returns the origin of the page that a request names, or "". Browsers that are
// older than 2020 send it only as a part of the Referer.
func originOf(h http.Header) string {
	if origin := h.Get("Origin"); origin != "" || h.Get("Sec-Fetch-Site") != "" {
		return origin
	}
	page, err := url.Parse(h.Get("Referer"))
	if err != nil || page.Host == "" {
		return ""
	}
	return page.Scheme + "://" + page.Host
}

// Trusts reports whether the pages of an origin may do what they want.
func (f *Filter) Trusts(origin string) bool {
	return slices.Contains(f.opt.Origins, "*") || origin != "" && slices.Contains(f.opt.Origins, origin)
}

// byBrowser reports whether a request looks like one of a browser. PowerShell calls itself
// Mozilla too.
func byBrowser(h http.Header) bool {
	agent := h.Get("User-Agent")
	return h.Get("Sec-Fetch-Site") != "" || h.Get("Origin") != "" || h.Get("Referer") != "" ||
		strings.HasPrefix(agent, "Mozilla/") && !strings.Contains(agent, "PowerShell/")
}

// hidden reports whether a script may have hidden that a browser sends a request to the
// script's own origin. In Firefox a script can choose the User-Agent, and no browser sends
// Origin with GET there. All browsers send Accept-Language. So does node, but with
// Sec-Fetch-Mode, which a script cannot set.
func hidden(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Accept-Language") != "" && r.Header.Get("Sec-Fetch-Mode") == ""
}

// ByScript reports whether a browser sent a request for a script or a part of a page, and
// not because a person opened its address.
func ByScript(h http.Header) bool {
	if mode := h.Get("Sec-Fetch-Mode"); mode != "" {
		return mode != "navigate"
	}
	return h.Get("Origin") != ""
}

// privateSuffixes end names that nobody owns in the internet.
var privateSuffixes = []string{".localhost", ".local", ".lan", ".internal", ".svc", ".home.arpa"}

// knows reports whether a Host header has an address, a name that nobody owns in the
// internet, or a name that the operator gave to the server.
func (f *Filter) knows(host string) bool {
	name := nameOf(host)
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
		return true
	}
	same := func(other string) bool { return nameOf(other) == name }
	return same(f.opt.Machine) || slices.ContainsFunc(f.opt.Hosts, same) ||
		slices.ContainsFunc(privateSuffixes, func(end string) bool { return strings.HasSuffix(name, end) })
}

// nameOf returns the name in a Host header in lower case, without its port.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// IsOrigin reports whether a text can be one of Options.Origins.
func IsOrigin(text string) bool {
	return text == "*" || new(http.CrossOriginProtection).AddTrustedOrigin(text) == nil
}

// IsHost reports whether a text can be one of Options.Hosts.
func IsHost(text string) bool {
	return text != "" && nameOf(text) == strings.ToLower(text) && !strings.ContainsAny(text, "/*?# :\t")
}
