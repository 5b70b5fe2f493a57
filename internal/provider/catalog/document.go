package catalog

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
)

// documentPart is the size of the parts of a compressed document, in bytes. A reader has one in
// memory. That is as much as the body of a call may take that is not counted.
const documentPart = 64 << 10

// partsSent is how many parts go to the database in one exchange.
const partsSent = 16

// Source is what a provider is imported from.
type Source struct {
	Document []byte
	Settings Settings
}

// Settings are the members of an import besides slug and document, as they were given. What is
// empty follows from the document.
type Settings struct {
	// Form is how the document is written: "json", "yaml" or "zip"; "" is JSON, too.
	Form string `json:"form,omitempty"`
	// Root, Origin and Absent say how the files of an archive belong together.
	Root   string            `json:"root,omitempty"`
	Origin string            `json:"origin,omitempty"`
	Absent map[string]string `json:"absent,omitempty"`

	Name    string           `json:"name,omitempty"`
	Domain  string           `json:"domain,omitempty"`
	BaseURL string           `json:"base_url,omitempty"`
	Auth    *credential.Auth `json:"auth,omitempty"`
	Loose   bool             `json:"loose,omitempty"` // strict was false
	Corrections
}

// row puts the source into the row of its provider, and returns the document in compressed parts.
func (s *Source) row(arg *dbsqlc.UpsertProviderParams) (parts [][]byte, err error) {
	if s == nil {
		return nil, nil
	}
	size := int64(len(s.Document))
	arg.DocumentSize = &size
	if arg.ImportSettings, err = json.Marshal(s.Settings); err != nil {
		return nil, fmt.Errorf("catalog: encode the settings of an import: %w", err)
	}
	return compressed(s.Document)
}

// compressed returns the document as parts of one gzip file. The fastest level takes 5 ms for a
// MiB, and leaves an eighth of it.
func compressed(document []byte) ([][]byte, error) {
	var file bytes.Buffer
	w, err := gzip.NewWriterLevel(&file, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(document)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("catalog: compress a document: %w", err)
	}
	return slices.Collect(slices.Chunk(file.Bytes(), documentPart)), nil
}

// keepDocument stores the parts of the provider's document in place of what was there. The
// document that is already there is not written again.
func (c *Catalog) keepDocument(ctx context.Context, tx pgx.Tx, st *storing, was known) error {
	if was.keeps && len(st.parts) > 0 && was.document == st.DocumentHash {
		return nil
	}
	if was.keeps {
		if err := c.q.DeleteDocument(ctx, tx, dbsqlc.DeleteDocumentParams{TenantID: st.tenant, Slug: st.Slug}); err != nil {
			return fmt.Errorf("catalog: remove the old document: %w", err)
		}
	}
	n := int32(0)
	for some := range slices.Chunk(st.parts, partsSent) {
		b := &db.Batch{}
		for _, part := range some {
			db.QueueExec(b, c.q.InsertDocumentPart, dbsqlc.InsertDocumentPartParams{TenantID: st.tenant, Slug: st.Slug, Part: n, Content: part})
			n++
		}
		if err := b.SendIn(ctx, tx); err != nil {
			return fmt.Errorf("catalog: store a document: %w", err)
		}
	}
	return nil
}

// Document is the document that a provider was imported from.
type Document struct {
	Hash Hash   // of its bytes
	Size int64  // of it, in bytes
	Form string // how it is written, "" for JSON

	c      *Catalog
	tenant uuid.UUID
	slug   string
}

// Document returns the document of a tenant's provider, whose bytes WriteTo reads.
// PROVIDER_NOT_FOUND; PROVIDER_DOCUMENT_NOT_FOUND where it is not kept.
func (c *Catalog) Document(ctx context.Context, tenant uuid.UUID, slug string) (Document, error) {
	row, err := c.source(ctx, c.db.Tenant(tenant), tenant, slug)
	switch {
	case err != nil:
		return Document{}, err
	case row.Shared:
		return Document{}, fault.New(fault.CodeDocumentNotFound, "This provider is one of the platform's. Its document is not kept.")
	case row.DocumentSize == nil:
		return Document{}, fault.New(fault.CodeDocumentNotFound, "This provider was imported before documents were kept. Import its document again.")
	}
	kept, err := c.kept(row, tenant, slug)
	return kept.Document, err
}

// source reads what a provider was imported from; PROVIDER_NOT_FOUND.
func (c *Catalog) source(ctx context.Context, on dbsqlc.DBTX, tenant uuid.UUID, slug string) (dbsqlc.GetProviderSourceRow, error) {
	if !verb.ValidSlug(slug) {
		return dbsqlc.GetProviderSourceRow{}, fault.New(fault.CodeProviderNotFound, "")
	}
	row, err := c.q.GetProviderSource(ctx, on, dbsqlc.GetProviderSourceParams{TenantID: tenant, Slug: slug})
	switch {
	case db.IsNoRows(err):
		return row, fault.New(fault.CodeProviderNotFound, "")
	case err != nil:
		return row, fmt.Errorf("catalog: read what a provider was imported from: %w", err)
	}
	return row, nil
}

// WriteTo writes the bytes of the document as they were imported. It reads them part by part,
// and fails where the document was replaced meanwhile.
func (d Document) WriteTo(ctx context.Context, w io.Writer) error {
	file, err := gzip.NewReader(&documentReader{Document: d, ctx: ctx})
	if err != nil {
		return fmt.Errorf("catalog: read a document: %w", err)
	}
	file.Multistream(false) // what follows the file is no part
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(file, d.Size+1), make([]byte, documentPart))
	if err == nil && n != d.Size {
		err = fmt.Errorf("it has %d bytes in place of %d", n, d.Size)
	}
	if err != nil {
		return fmt.Errorf("catalog: read a document: %w", err)
	}
	return nil
}

// documentReader reads the compressed parts of a document.
type documentReader struct {
	Document
	ctx  context.Context //nolint:containedctx // io.Reader has none, and it lives as long as one WriteTo
	next int32
	rest []byte
}

// Read implements io.Reader.
func (r *documentReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		part, err := r.c.q.GetDocumentPart(r.ctx, r.c.db.Tenant(r.tenant), dbsqlc.GetDocumentPartParams{
			TenantID: r.tenant, Slug: r.slug, Part: r.next, DocumentHash: r.Hash[:],
		})
		if db.IsNoRows(err) {
			err = errors.New("the document was replaced")
		}
		if err != nil {
			return 0, err
		}
		r.rest = part
		r.next++
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
