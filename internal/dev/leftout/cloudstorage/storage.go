// Package storage takes the place of the client of Google Cloud Storage, to which a Temporal
// server can archive. The real module brings 200 packages, and the embedded development
// server archives nothing. No client can be made of this package. It has only what the
// server names, so a later server that needs more does not compile.
package storage

import (
	"context"
	"errors"

	"google.golang.org/api/option"
)

// ScopeFullControl is the permission that the server asks for.
const ScopeFullControl = "https://www.googleapis.com/auth/devstorage.full_control"

var errLeftOut = errors.New("this development server is compiled without Google Cloud Storage")

// The types that the server names. Without a Client there are no values of them.
type (
	Client         struct{}
	BucketHandle   struct{}
	ObjectHandle   struct{}
	ObjectIterator struct{}
	Writer         struct{}
	Reader         struct{}
	BucketAttrs    struct{}
	ObjectAttrs    struct{ Name string }
	Query          struct{ Prefix string }
)

// NewClient always fails.
func NewClient(context.Context, ...option.ClientOption) (*Client, error) { return nil, errLeftOut }

// Bucket returns a bucket in which nothing can be done.
func (*Client) Bucket(string) *BucketHandle { return &BucketHandle{} }

// Object returns an object with which nothing can be done.
func (*BucketHandle) Object(string) *ObjectHandle { return &ObjectHandle{} }

// Objects returns an iterator that fails.
func (*BucketHandle) Objects(context.Context, *Query) *ObjectIterator { return &ObjectIterator{} }

// Attrs fails.
func (*BucketHandle) Attrs(context.Context) (*BucketAttrs, error) { return nil, errLeftOut }

// NewWriter returns a writer that fails.
func (*ObjectHandle) NewWriter(context.Context) *Writer { return &Writer{} }

// NewReader fails.
func (*ObjectHandle) NewReader(context.Context) (*Reader, error) { return nil, errLeftOut }

// Attrs fails.
func (*ObjectHandle) Attrs(context.Context) (*ObjectAttrs, error) { return nil, errLeftOut }

// Next fails.
func (*ObjectIterator) Next() (*ObjectAttrs, error) { return nil, errLeftOut }

// Write implements io.Writer; it fails.
func (*Writer) Write([]byte) (int, error) { return 0, errLeftOut }

// Close fails: nothing was written.
func (*Writer) Close() error { return errLeftOut }

// CloseWithError does nothing, as in the real package.
func (*Writer) CloseWithError(error) error { return nil }

// Read implements io.Reader; it fails.
func (*Reader) Read([]byte) (int, error) { return 0, errLeftOut }

// Close does nothing.
func (*Reader) Close() error { return nil }
