// Command printed prints the version that it was linked with.
package main

import (
	"fmt"

	"tsdbd/internal/version"
)

func main() { fmt.Println(version.String(), version.UserAgent()) }
