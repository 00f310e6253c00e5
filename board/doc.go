// Package board knows the form of the document of a board, a page of panels that a person has saved.
//
// Check is what the server does with a document before the catalog keeps it. It checks the members of
// the document, its size and its depth. It leaves texts alone: nothing here runs a query or follows a link.
package board
