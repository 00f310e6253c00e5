// Package browsertest tells stories of people who use the page of the server, in a real
// browser: Chromium, driven by the scripts in web/ui/test, against the real binary
// with real data. It has no code of its own. Its tests skip where there is no
// Chromium, no node, or no node_modules in web/ui (make ui puts them there).
package browsertest
