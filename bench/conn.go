package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// conn is one connection to a server, for one goroutine. It builds requests by
// hand and reads answers where they are waited for: the goroutines of
// http.Client take longer over a small request than a server does.
type conn struct {
	net.Conn
	in   *bufio.Reader
	host string
	text []byte
	body bytes.Buffer
	stop func() bool
}

// requestTime is how long a server may take over a request.
const requestTime = 2 * time.Minute

// dial connects to a server. The end of ctx ends what the connection does.
func dial(ctx context.Context, base string) (*conn, error) {
	host := strings.TrimPrefix(base, "http://")
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return &conn{
		Conn: c, in: bufio.NewReader(c), host: host,
		stop: context.AfterFunc(ctx, func() { _ = c.Close() }),
	}, nil
}

func (c *conn) close() {
	c.stop()
	_ = c.Conn.Close()
}

// get returns the answer to a GET request. It is valid until the next call.
func (c *conn) get(path string, params url.Values) ([]byte, error) {
	if len(params) > 0 {
		path += "?" + params.Encode()
	}
	c.text = fmt.Appendf(c.text[:0], "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, c.host)
	if err := c.SetDeadline(time.Now().Add(requestTime)); err != nil {
		return nil, err
	}
	if _, err := c.Conn.Write(c.text); err != nil {
		return nil, err
	}
	return c.answer(path)
}

// write sends lines and waits for the acknowledgement.
func (c *conn) write(db string, lines []byte) error {
	c.text = fmt.Appendf(c.text[:0], "POST /write?db=%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", url.QueryEscape(db), c.host, len(lines))
	err := c.SetDeadline(time.Now().Add(requestTime))
	if err != nil {
		return err
	}
	if len(lines) < 1<<16 {
		c.text = append(c.text, lines...)
		_, err = c.Conn.Write(c.text)
	} else {
		_, err = (&net.Buffers{c.text, lines}).WriteTo(c.Conn)
	}
	if err != nil {
		return err
	}
	if ok, err := c.plainAnswer(); ok || err != nil {
		return err
	}
	_, err = c.answer("/write")
	return err
}

// answer reads the answer to a request for path.
func (c *conn) answer(path string) ([]byte, error) {
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	c.body.Reset()
	_, err = c.body.ReadFrom(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		path, _, _ = strings.Cut(path, "?")
		return nil, &statusError{path, resp.StatusCode, strings.TrimSpace(c.body.String())}
	}
	return c.body.Bytes(), nil
}

// plainAnswer reads a 204, which has no body; false if it is another answer,
// of which it has read nothing.
func (c *conn) plainAnswer() (bool, error) {
	status, err := c.in.Peek(len("HTTP/1.1 204"))
	if err != nil || string(status) != "HTTP/1.1 204" {
		return false, err
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		if len(line) <= 2 {
			return true, nil
		}
	}
}
