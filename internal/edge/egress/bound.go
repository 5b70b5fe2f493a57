package egress

import (
	"io"
	"net/http"
)

// Bounded returns the client with a bound on the bytes of the body of each answer. A read beyond it
// fails with tooLong. No request is sent a second time by the transport itself.
func Bounded(client *http.Client, most int, tooLong error) *http.Client {
	with := *client
	with.Transport = bounded{client.Transport, most, tooLong}
	return &with
}

type bounded struct {
	next    http.RoundTripper
	most    int
	tooLong error
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	once := *req
	once.GetBody = nil // a kept-alive connection that drops would have the transport send it again
	resp, err := b.next.RoundTrip(&once)
	if err != nil {
		return nil, err
	}
	resp.Body = &limited{resp.Body, b.most, b.tooLong}
	return resp, nil
}

type limited struct {
	io.ReadCloser

	left    int
	tooLong error
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 { // it may end here
		n, err := l.ReadCloser.Read(make([]byte, 1))
		if n > 0 {
			err = l.tooLong
		}
		return 0, err
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
