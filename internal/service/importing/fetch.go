package importing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"agentruntime/internal/edge/egress"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/provider/openapi"
)

// Bounds of fetching a document with the files that it refers to.
const (
	maxFetched    = 25 << 20 // bytes of all files
	maxFetches    = 100      // files
	fetchesAtOnce = 4
	fetchTime     = 30 * time.Second // of all together
	oneFetchTime  = 15 * time.Second
	maxRedirects  = 3 // of the document itself
)

const (
	fetchAgent  = "AgentRuntime/1.0"
	fetchAccept = "application/json, application/yaml;q=0.9, */*;q=0.5"
)

var errTooMuch = errors.New("importing: what is fetched is too large")

// why is an error whose text a caller may read.
type why string

// Error implements error.
func (w why) Error() string { return string(w) }

// Fetched is a document as it was fetched: its bytes, or an archive of it and the files that it
// refers to.
type Fetched struct {
	Document []byte
	Files    openapi.Files
}

// Fetch fetches a document and the files of the same host that it refers to, directly or not. It
// refuses an address that may not be called with URL_NOT_ALLOWED, and a document that cannot be
// fetched with VALIDATION_ERROR. A file that cannot be fetched is noted. A document without other files
// stays as it is.
func (s *Service) Fetch(ctx context.Context, who actor.Actor, raw string) (Fetched, error) {
	if err := s.egress.CheckURL(raw); err != nil {
		return Fetched{}, err
	}
	at, err := url.Parse(raw)
	if err != nil {
		return Fetched{}, fault.Invalid("/openapi_url", "format", "openapi_url is not a URL.")
	}
	limited, stop := context.WithTimeout(ctx, fetchTime)
	defer stop()
	f := &fetching{service: s, who: who, left: maxFetched, files: map[string][]byte{}, absent: map[string]string{}}
	root, body, err := f.document(limited, at)
	if err != nil {
		return Fetched{}, callersOr(ctx, err)
	}
	var usable bool
	f.origin = root.Scheme + "://" + root.Host
	if f.root, usable = openapi.FileName(root); !usable {
		return Fetched{}, refusedFetch(why("its path has empty segments or is too long"))
	}
	f.files[f.root] = body
	more, err := f.references(limited, f.root)
	if err != nil {
		return Fetched{}, callersOr(ctx, err)
	}
	if len(more) == 0 && !f.refers {
		return Fetched{Document: body}, nil
	}
	if err := f.follow(limited, more); err != nil {
		return Fetched{}, callersOr(ctx, err)
	}
	packed, err := openapi.Pack(f.files)
	return Fetched{Document: packed, Files: openapi.Files{Root: f.root, Origin: f.origin, Absent: f.absent}}, err
}

// callersOr returns why the caller's own context ended, where it did.
func callersOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// fetching is one document on its way here.
type fetching struct {
	service      *Service
	who          actor.Actor
	origin, root string
	refers       bool // it refers to files, of whatever host

	mu     sync.Mutex
	left   int // bytes
	files  map[string][]byte
	absent map[string]string // why files could not be fetched
}

// document fetches the document itself, and returns where it is: redirects within its host count.
func (f *fetching) document(ctx context.Context, at *url.URL) (*url.URL, []byte, error) {
	for range maxRedirects + 1 {
		body, next, err := f.get(ctx, at)
		if err != nil {
			return nil, nil, refusedFetch(err)
		}
		if next == nil {
			return at, body, nil
		}
		if next.Scheme != at.Scheme || next.Host != at.Host || next.User != nil {
			return nil, nil, refusedFetch(why("it is redirected to another host. Name the address there"))
		}
		at = next
	}
	return nil, nil, refusedFetch(why("it is redirected more than three times"))
}

// refusedFetch says why a document could not be fetched.
func refusedFetch(err error) error {
	var told why
	switch {
	case errors.Is(err, egress.ErrRefused):
		return fault.New(fault.CodeURLNotAllowed, "The address of the document is not public.").Because(err)
	case errors.Is(err, errTooMuch):
		return fault.Invalid("/openapi_url", "size", "The document has more than 25 MiB with its files.")
	case errors.As(err, &told):
		return fault.Invalid("/openapi_url", "fetch", "The document cannot be fetched: "+told.Error()+".")
	}
	return err
}

// follow fetches what is referred to, level by level.
func (f *fetching) follow(ctx context.Context, names []string) error {
	for len(names) > 0 {
		if len(f.files)+len(f.absent)+len(names) > maxFetches {
			return fault.Invalid("/openapi_url", "files", fmt.Sprintf("The document refers to more than %d files. Send them as a zip archive.", maxFetches))
		}
		if err := f.getAll(ctx, names); err != nil {
			return err
		}
		var next []string
		for _, name := range names {
			more, err := f.references(ctx, name)
			if err != nil {
				return err
			}
			for _, one := range more {
				if !f.known(one) && !slices.Contains(next, one) {
					next = append(next, one)
				}
			}
		}
		names = next
	}
	return nil
}

func (f *fetching) known(name string) bool {
	_, absent := f.absent[name]
	return absent || f.files[name] != nil
}

// references returns the files that a fetched one refers to and that are not known. The importer
// says later what is wrong with one that cannot be read.
func (f *fetching) references(ctx context.Context, name string) (more []string, err error) {
	body, has := f.files[name]
	if !has {
		return nil, nil
	}
	err = f.service.inTurn(ctx, f.who, len(body), func(ctx context.Context, l lane) error {
		refs, err := openapi.References(ctx, f.origin, name, body, l.small)
		more, f.refers = refs.Files, f.refers || refs.Any
		return err
	})
	if refused := fault.As(err); refused != nil && refused.Code == fault.CodeValidation {
		return nil, nil
	}
	return slices.DeleteFunc(more, f.known), err
}

// getAll fetches files, a few at a time. One that cannot be fetched is noted.
func (f *fetching) getAll(ctx context.Context, names []string) error {
	var wait sync.WaitGroup
	var failed error
	slots := make(chan struct{}, fetchesAtOnce)
	for _, name := range names {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			err := f.getOne(ctx, name)
			f.mu.Lock()
			defer f.mu.Unlock()
			var told why
			switch {
			case err == nil:
			case errors.As(err, &told):
				f.absent[name] = told.Error()
			case errors.Is(err, egress.ErrRefused):
				f.absent[name] = "its address is not public"
			case failed == nil:
				failed = err
			}
		})
	}
	wait.Wait()
	if errors.Is(failed, errTooMuch) {
		return refusedFetch(failed)
	}
	return failed
}

func (f *fetching) getOne(ctx context.Context, name string) error {
	at, err := url.Parse(f.origin + "/" + name)
	if err != nil {
		return why("its address is not a URL")
	}
	body, next, err := f.get(ctx, at)
	if err == nil && next != nil {
		err = why("it is redirected")
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[name] = body
	return nil
}

// get makes one request. It returns the body of a 200, or where the server redirects to. The
// error is a why, errTooMuch, ErrRefused, or that of the context.
func (f *fetching) get(ctx context.Context, at *url.URL) (body []byte, next *url.URL, err error) {
	limited, stop := context.WithTimeout(ctx, oneFetchTime)
	defer stop()
	req, err := http.NewRequestWithContext(limited, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, nil, why("its address is not a URL")
	}
	req.Header.Set("User-Agent", fetchAgent)
	req.Header.Set("Accept", fetchAccept)
	resp, err := f.service.client.Do(req)
	if err != nil {
		return nil, nil, f.failed(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.Header.Get("Location") != "":
		if next, err = resp.Location(); err != nil {
			return nil, nil, why("it is redirected to what is no URL")
		}
		return nil, next, nil
	case resp.StatusCode != http.StatusOK:
		return nil, nil, why(fmt.Sprintf("the server answers %d", resp.StatusCode))
	}
	if body, err = io.ReadAll(&counted{f: f, r: resp.Body}); err != nil {
		return nil, nil, f.failed(err)
	}
	return body, nil, nil
}

// failed returns an error of a request as one that names no address: the query of one may be secret.
func (f *fetching) failed(err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(err, errTooMuch):
		return errTooMuch
	case errors.Is(err, egress.ErrRefused):
		return egress.ErrRefused
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return why("the server takes too long")
	case errors.As(err, &dns):
		return why("the name of its host is not known")
	default:
		return why("the server cannot be reached, or breaks off")
	}
}

// counted counts what is read of all files.
type counted struct {
	f *fetching
	r io.Reader
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.left -= n; c.f.left < 0 {
		return n, errTooMuch
	}
	return n, err
}
