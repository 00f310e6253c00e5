// Package boards is the HTTP API of boards, the pages of panels that the catalog keeps.
//
// API answers requests that package httpapi has admitted: it knows no users. A change goes to the
// catalog as a command, which checks the edition that it began from. Nothing here interprets a board.
package boards
