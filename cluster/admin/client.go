package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tsdbd/exchange"
)

// Client asks the nodes of a cluster.
type Client struct {
	Nodes []*exchange.Client // tried in this order
	// Timeout is how long a node may take to say how it is; 0 is no bound.
	Timeout time.Duration
}

// Status returns what the first node knows that answers.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	s, _, err := c.first(ctx)
	return s, err
}

// Verify compares the content of all nodes. It takes as long as the slowest node
// needs to read its data.
func (c *Client) Verify(ctx context.Context) (*Verification, error) {
	var v Verification
	return &v, c.post(ctx, "verify", nil, &v)
}

// Add gives a member a vote, or takes its vote.
func (c *Client) Add(ctx context.Context, name string, voter bool) error {
	return c.post(ctx, "add", url.Values{"name": {name}, "voter": {strconv.FormatBool(voter)}}, nil)
}

// Remove removes a member from the cluster.
func (c *Client) Remove(ctx context.Context, name string) error {
	return c.post(ctx, "remove", url.Values{"name": {name}}, nil)
}

// TransferLeader has a member lead, or any if name is empty, and returns the name
// of the leader.
func (c *Client) TransferLeader(ctx context.Context, name string) (string, error) {
	var answer struct{ Leader string }
	params := url.Values{}
	if name != "" {
		params.Set("name", name)
	}
	err := c.post(ctx, "transfer-leader", params, &answer)
	return answer.Leader, err
}

// FinishUpgrade has the log be written in the newest form that all nodes read, and returns
// it.
func (c *Client) FinishUpgrade(ctx context.Context) (format int, err error) {
	var answer struct{ Format int }
	err = c.post(ctx, "finish-upgrade", nil, &answer)
	return answer.Format, err
}

// post sends a request that changes the cluster to the first node that answers.
// It is sent once: the second node could not know what the first has done.
func (c *Client) post(ctx context.Context, path string, params url.Values, to any) error {
	_, node, err := c.first(ctx)
	if err != nil {
		return err
	}
	return node.Ask(ctx, http.MethodPost, Prefix+path, params, nil, nil, to)
}

// first returns the first node that answers, and what it says. A node that takes
// longer than the timeout counts as one that does not answer.
func (c *Client) first(ctx context.Context) (*Status, *exchange.Client, error) {
	var silent []error
	for _, n := range c.Nodes {
		s, err := c.status(ctx, n)
		var answered *exchange.WriteError
		switch {
		case err == nil:
			return s, n, nil
		case errors.As(err, &answered) && answered.Status == http.StatusNotFound:
			return nil, nil, fmt.Errorf("%s is not a node of a cluster: %w", n.URL, err)
		case errors.As(err, &answered), ctx.Err() != nil:
			return nil, nil, err
		}
		silent = append(silent, err)
	}
	return nil, nil, errors.Join(silent...)
}

func (c *Client) status(ctx context.Context, n *exchange.Client) (*Status, error) {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	var s Status
	return &s, n.Ask(ctx, http.MethodGet, Prefix+"status", nil, nil, nil, &s)
}

// Lasting reports that asking again cannot help: the request is refused, or the address or a
// certificate is wrong. If several nodes do not answer, that must hold for each.
func Lasting(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(e error) bool { return !Lasting(e) })
	}
	var answered *exchange.WriteError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &answered):
		return slices.Contains([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden}, answered.Status)
	case errors.As(err, &certificate):
		return true
	}
	return errors.Is(err, http.ErrSchemeMismatch)
}
