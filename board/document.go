package board

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"tsdbd/internal/binio"
	"tsdbd/meta"
)

// Version is the version of documents.
const Version = 1

// maxDepth bounds how deep the values of a document are nested. Those of version 1 are 5 deep.
const maxDepth = 16

// Check returns a document in the form that the catalog keeps. An error is a meta.ErrBoardInvalid that
// names the member, or a meta.ErrBoardTooLarge.
func Check(document []byte) (json.RawMessage, error) {
	content, err := meta.BoardContent(document)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", meta.ErrBoardInvalid, err)
	}
	if len(content) > meta.MaxBoardBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, a board may have %d", meta.ErrBoardTooLarge, len(content), meta.MaxBoardBytes)
	}
	if err = checkDepth(content); err == nil {
		err = checkMembers(content)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", meta.ErrBoardInvalid, err)
	}
	return content, nil
}

// checkDepth returns an error for values that are nested too deep.
func checkDepth(content []byte) error {
	d := json.NewDecoder(bytes.NewReader(content))
	for depth := 0; ; {
		switch token, err := d.Token(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case token == json.Delim('{'), token == json.Delim('['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("values are nested more than %d deep", maxDepth)
			}
		case token == json.Delim('}'), token == json.Delim(']'):
			depth--
		}
	}
}

// checkMembers returns an error if the document is not an object with the members of version 1.
func checkMembers(content []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(content, &members); err != nil || members == nil {
		return errors.New("it is not a JSON object")
	}
	if got := string(members["version"]); got != fmt.Sprint(Version) {
		if got == "" {
			return fmt.Errorf("version is missing, this server knows %d", Version)
		}
		if n, err := strconv.ParseUint(got, 10, 32); err == nil && n > Version {
			return binio.CheckVersion("", "document of a board", n, Version)
		}
		return fmt.Errorf("version is %.40s, this server knows %d", got, Version)
	}
	for name, value := range members {
		var to any
		form := "a list of objects"
		switch name {
		case "version":
			continue
		case "range":
			to, form = new(map[string]string), `an object with the texts "from" and "to"`
		case "refresh":
			to, form = new(uint32), "a number of seconds"
		case "variables", "panels":
			to = new([]map[string]json.RawMessage)
		default:
			return fmt.Errorf("member %.40q is not known", name)
		}
		err := json.Unmarshal(value, to)
		switch v := to.(type) {
		case *map[string]string:
			if _, ok := (*v)["from"]; !ok || (*v)["to"] == "" || len(*v) != 2 {
				err = errors.New(form)
			}
		case *[]map[string]json.RawMessage:
			for _, m := range *v {
				if m == nil {
					err = errors.New(form)
				}
			}
		}
		if err != nil || string(value) == "null" {
			return fmt.Errorf("%s is not %s", name, form)
		}
	}
	if members["panels"] == nil {
		return errors.New("panels is missing")
	}
	return nil
}
