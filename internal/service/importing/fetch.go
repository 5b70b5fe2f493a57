package importing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/turns"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/openapi"
)

// Bounds of fetching a document with the files that it refers to.
const (
	maxFetched    = 25 << 20         // bytes of all files
	maxFetches    = 100              // files
	fetchesAtOnce = 4                // files of one document
	fetchTime     = 30 * time.Second // of all together
	oneFetchTime  = 15 * time.Second
	// maxSmallFetched is how many bytes may come without a turn of the large ones.
	maxSmallFetched = 1 << 20
	// largeFetchTime bounds the requests for a large document with its files once it has that turn. It is
	// short: a server that sends slowly keeps the turn from others.
	largeFetchTime = 10 * time.Second
	maxRedirects   = 3 // of the document itself
)

const (
	fetchAgent  = "AgentRuntime/1.0"
	fetchAccept = "application/json, application/yaml;q=0.9, */*;q=0.5"
)

// Bounds of what is fetched at once, for all tenants. What has come is in memory: 1 MiB of each small
// one, and 25 MiB of each large one.
const (
	fetchesMost      = 32
	largeFetchesMost = 2
)

// The reasons why nothing more is fetched.
var (
	errTooMuch  = errors.New("importing: what is fetched is too large")
	errNotSmall = errors.New("importing: what is fetched is not small")
)

// fetches lets documents come in from other servers, at most one of each tenant at once. A server
// decides how long that takes, so nothing that an upload needs is taken meanwhile.
type fetches struct {
	all, large *turns.Turns
	// time, oneTime and largeTime are fetchTime, oneFetchTime and largeFetchTime.
	time, oneTime, largeTime time.Duration
}

func newFetches() fetches {
	line := func(slots int) *turns.Turns {
		return turns.New(turns.Config{Slots: slots, Share: 1, Wait: turnWait, Each: turnsEach, Most: turnsMost})
	}
	return fetches{line(fetchesMost), line(largeFetchesMost), fetchTime, oneFetchTime, largeFetchTime}
}

// take waits for a turn to fetch a document for the tenant.
func (f *fetches) take(ctx context.Context, t *turns.Turns, who actor.Actor) (free func(), err error) {
	free, err = t.Take(ctx, who.TenantID.String())
	if errors.Is(err, turns.ErrBusy) || errors.Is(err, turns.ErrCrowded) {
		err = later("Other documents are being fetched. Repeat the call later.", err)
	}
	return free, err //nolint:wrapcheck // the context's is the caller's own
}

// why is an error whose text a caller may read.
type why string

// Error implements error.
func (w why) Error() string { return string(w) }

// passing is a why of what the same request may not meet again later.
type passing string

// Error implements error.
func (p passing) Error() string { return string(p) }

// Fetched is a document as it was fetched: its bytes, or an archive of it and the files that it
// refers to.
type Fetched struct {
	Document []byte
	Files    openapi.Files
}

// Fetch fetches a document and the files of the same host that it refers to, directly or not. It
// refuses an address that may not be called with URL_NOT_ALLOWED, and a document that cannot be
// fetched with VALIDATION_ERROR. A file that the server refuses is noted. SERVICE_UNAVAILABLE where
// the server of the document or a file fails or takes too long: without the file, an import would
// remove its operations. A document without other files stays as it is.
//
// What turns out to be large is fetched again, in a turn of the large ones. room waits until so many
// bytes may stay in memory beside those of other calls. It is called before Fetch gives its turn back.
func (s *Service) Fetch(ctx context.Context, who actor.Actor, raw string, room func(size int64) error) (Fetched, error) {
	if err := s.egress.CheckURL(raw); err != nil {
		return Fetched{}, err
	}
	at, err := url.Parse(raw)
	if err != nil {
		return Fetched{}, fault.Invalid("/openapi_url", "format", "openapi_url is not a URL.")
	}
	free, err := s.fetches.take(ctx, s.fetches.all, who)
	if err != nil {
		return Fetched{}, err
	}
	defer free()
	f := &fetching{service: s, who: who, room: room, left: maxSmallFetched, tooMuch: errNotSmall, time: s.fetches.time}
	got, err := f.whole(ctx, at)
	if !errors.Is(err, errNotSmall) {
		return got, err
	}
	freeLarge, err := s.fetches.take(ctx, s.fetches.large, who)
	if err != nil {
		return Fetched{}, err
	}
	defer freeLarge()
	defer s.large.frugal()()
	f = &fetching{service: s, who: who, room: room, left: maxFetched, tooMuch: errTooMuch, time: s.fetches.largeTime}
	return f.whole(ctx, at)
}

// whole is all, with an error for the caller where it takes too long. Its turns may take turnWait
// together: meanwhile it keeps its place among what is fetched.
func (f *fetching) whole(ctx context.Context, at *url.URL) (Fetched, error) {
	limited, stop := context.WithTimeout(ctx, f.time+turnWait)
	defer stop()
	f.files, f.addresses, f.absent = map[string][]byte{}, map[string]string{}, map[string]string{}
	f.most = f.left
	got, err := f.all(limited, at)
	switch {
	case err == nil:
		return got, nil
	case ctx.Err() != nil:
		return Fetched{}, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded) && fault.As(err) == nil:
		return Fetched{}, later("The document and its files take too long to fetch. Repeat the call later.", err)
	}
	return Fetched{}, err
}

// fromServer makes requests within the time that is left. What else a document needs, as the turns in
// which it is read, is not the server's time.
func (f *fetching) fromServer(ctx context.Context, do func(ctx context.Context) error) error {
	limited, stop := context.WithTimeout(ctx, f.time)
	defer stop()
	began := time.Now()
	err := do(limited)
	f.time -= time.Since(began)
	return err
}

// all fetches the document and its files.
func (f *fetching) all(ctx context.Context, at *url.URL) (Fetched, error) {
	var root *url.URL
	var body []byte
	err := f.fromServer(ctx, func(ctx context.Context) (err error) {
		root, body, err = f.document(ctx, at)
		return err
	})
	if err != nil {
		return Fetched{}, err
	}
	f.origin = root.Scheme + "://" + root.Host
	name, usable := openapi.RootName(root)
	f.files[name] = body
	more, err := f.references(ctx, name)
	switch {
	case err != nil:
		return Fetched{}, err
	case len(more) == 0 && !f.refers:
		return Fetched{Document: body}, f.keep()
	case !usable:
		return Fetched{}, refusedFetch(why("it refers to other files, and its path has empty segments or is too long"))
	}
	if err := f.follow(ctx, more); err != nil {
		return Fetched{}, err
	}
	if err := f.keep(); err != nil {
		return Fetched{}, err
	}
	packed, err := openapi.Pack(f.files)
	return Fetched{Document: packed, Files: openapi.Files{Root: name, Origin: f.origin, Absent: f.absent}}, err
}

// keep waits until what was fetched may stay in memory.
func (f *fetching) keep() error { return f.room(int64(f.most - f.left)) }

// fetching is one document on its way here.
type fetching struct {
	service   *Service
	who       actor.Actor
	room      func(size int64) error
	most      int           // bytes
	tooMuch   error         // where more come
	time      time.Duration // that requests may still take
	origin    string
	refers    bool              // it refers to files, of whatever host
	addresses map[string]string // of files within the origin, by name

	mu     sync.Mutex
	left   int // bytes
	files  map[string][]byte
	absent map[string]string // why the server has no files of these names
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
	var fails passing
	switch {
	case errors.As(err, &fails):
		return later("The document cannot be fetched now: "+fails.Error()+". Repeat the call later.", err)
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
		if err := f.fromServer(ctx, func(ctx context.Context) error { return f.getAll(ctx, names) }); err != nil {
			return err
		}
		var next []string
		for _, name := range names {
			more, err := f.references(ctx, name)
			if err != nil {
				return err
			}
			next = append(next, more...)
		}
		names = next
	}
	return nil
}

// references returns the files that a fetched one refers to and that no other did, and refuses the
// document where that makes too many. The importer says later what is wrong with a file that cannot
// be read.
func (f *fetching) references(ctx context.Context, name string) (more []string, err error) {
	body, has := f.files[name]
	if !has {
		return nil, nil
	}
	var refs openapi.Refers
	err = f.service.inTurn(ctx, f.who, len(body), func(ctx context.Context, l lane) (err error) {
		refs, err = openapi.References(ctx, f.origin, name, body, l.small, maxFetches)
		return err
	})
	if refused := fault.As(err); refused != nil && refused.Code == fault.CodeValidation {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f.refers = f.refers || refs.Any
	for one, address := range refs.Files {
		if _, known := f.addresses[one]; known || f.files[one] != nil {
			continue
		}
		f.addresses[one] = address
		more = append(more, one)
		if len(f.addresses)+1 > maxFetches { // with the document
			return nil, fault.Invalid("/openapi_url", "files", fmt.Sprintf("The document refers to more than %d files. Send them as a zip archive.", maxFetches))
		}
	}
	return more, nil
}

// getAll fetches files, a few at a time. One that the server refuses is noted. Any other failure
// ends them all.
func (f *fetching) getAll(ctx context.Context, names []string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup
	var failed error
	slots := make(chan struct{}, fetchesAtOnce)
	for _, name := range names {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
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
				failed = failedFile(name, err)
				stop()
			}
		})
	}
	wait.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return failed //nolint:wrapcheck // the context's is the caller's own
}

// failedFile says that a file could not be fetched, and whether to try again.
func failedFile(name string, err error) error {
	if fails, is := errors.AsType[passing](err); is {
		return later("The file "+name+", to which the document refers, cannot be fetched now: "+fails.Error()+". Repeat the call later.", err)
	}
	return refusedFetch(err)
}

func (f *fetching) getOne(ctx context.Context, name string) error {
	at, err := url.Parse(f.origin + f.addresses[name])
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
// error is a why, a passing, f.tooMuch, ErrRefused, or that of a canceled context.
func (f *fetching) get(ctx context.Context, at *url.URL) (body []byte, next *url.URL, err error) {
	limited, stop := context.WithTimeout(ctx, f.service.fetches.oneTime)
	defer stop()
	req, err := http.NewRequestWithContext(limited, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, nil, why("its address is not a URL")
	}
	req.Header.Set("User-Agent", fetchAgent)
	req.Header.Set("Accept", fetchAccept)
	// A client would read the Location of a redirect itself. Its error for one that is no URL is like that
	// of a server that breaks off.
	resp, err := f.service.transport.RoundTrip(req)
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
		return nil, nil, answered(resp.StatusCode)
	}
	if body, err = f.read(resp); err != nil {
		return nil, nil, f.failed(err)
	}
	return body, nil, nil
}

// read reads the body of a response. One that says that it is too large is not read. What it says is
// believed up to maxSmallFetched: many servers could promise more than they send.
func (f *fetching) read(resp *http.Response) ([]byte, error) {
	f.mu.Lock()
	left := int64(f.left)
	f.mu.Unlock()
	if resp.ContentLength > left {
		return nil, f.tooMuch
	}
	return readAll(&counted{f: f, r: resp.Body}, min(max(resp.ContentLength, firstRead), maxSmallFetched))
}

// firstRead is how many bytes of a body of unknown length have room at first.
const firstRead = 32 << 10

// readAll reads a body of about so many bytes. It returns the bytes without room behind them, and it
// copies them once: a buffer that doubles would keep up to twice as many until the document has its turn.
func readAll(r io.Reader, size int64) ([]byte, error) {
	var parts [][]byte
	part := make([]byte, 0, size+1) // one more, so that the end is found without another part
	for {
		n, err := r.Read(part[len(part):cap(part)])
		part = part[:len(part)+n]
		switch {
		case errors.Is(err, io.EOF):
			return slices.Concat(append(parts, part)...), nil
		case err != nil:
			return nil, err //nolint:wrapcheck // the caller tells the errors apart
		case len(part) == cap(part):
			parts, part = append(parts, part), make([]byte, 0, min(2*cap(part), maxSmallFetched))
		}
	}
}

// answered returns the error of another status than 200.
func answered(status int) error {
	text := fmt.Sprintf("the server answers %d", status)
	if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return passing(text)
	}
	return why(text)
}

// failed returns an error of a request as one that names no address: the query of one may be secret.
func (f *fetching) failed(err error) error {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, f.tooMuch):
		return f.tooMuch
	case errors.Is(err, egress.ErrRefused):
		return egress.ErrRefused
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return passing("the server takes too long")
	case errors.As(err, &dns) && dns.IsNotFound:
		return f.lasting("the name of its host is not known")
	case errors.As(err, &certificate):
		return f.lasting("the certificate of its server cannot be verified")
	default:
		return passing("the server cannot be reached, or breaks off")
	}
}

// lasting returns an error about the host. That of the document is named wrongly, but where the
// document came from it a moment ago, its files can come later too.
func (f *fetching) lasting(text string) error {
	if f.origin != "" {
		return passing(text)
	}
	return why(text)
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
		return n, c.f.tooMuch
	}
	return n, err
}
