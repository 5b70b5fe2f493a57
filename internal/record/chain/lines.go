package chain

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Format and Version are written in the header of an export.
const (
	Format  = "agentruntime-audit"
	Version = 1
)

// Header is the first line of an export.
type Header struct {
	TenantID uuid.UUID
	FirstSeq int64
	PrevHash Hash   // of the chain before FirstSeq
	Filters  []byte // JSON object of the filters of the export, {} for a whole one
}

// AppendLine appends the header with its line end.
func (h Header) AppendLine(b []byte) []byte {
	b = append(b, `{"type":"header"`...)
	b = appendMember(b, "format", Format)
	b = appendNumber(b, "version", Version)
	b = appendMember(b, "tenant_id", h.TenantID.String())
	b = appendNumber(b, "first_seq", h.FirstSeq)
	b = appendMember(b, "prev_hash", h.PrevHash.String())
	b = append(b, `,"filters":`...)
	b = append(b, h.Filters...)
	return append(b, '}', '\n')
}

// AppendRecord appends the line of a record that is shown. text is from
// Record.AppendText.
func AppendRecord(b []byte, seq int64, hash Hash, text []byte) []byte {
	b = appendEntry(b, seq, hash)
	b = append(b, recordMember...)
	b = append(b, text...)
	return append(b, '}', '\n')
}

// AppendLeaf appends the line of a record that the filters leave out.
func AppendLeaf(b []byte, seq int64, hash, leaf Hash) []byte {
	b = appendEntry(b, seq, hash)
	b = append(b, leafMember...)
	b = hex.AppendEncode(b, leaf[:])
	return append(b, '"', '}', '\n')
}

// The fixed parts of a record's line.
const (
	seqMember    = `{"seq":`
	hashMember   = `,"hash":"`
	recordMember = `","record":`
	leafMember   = `","leaf":"`
)

func appendEntry(b []byte, seq int64, hash Hash) []byte {
	b = append(b, seqMember...)
	b = strconv.AppendInt(b, seq, 10)
	b = append(b, hashMember...)
	return hex.AppendEncode(b, hash[:])
}

// Kind says why a checkpoint was made.
type Kind string

// The kinds of checkpoints.
const (
	KindHourly Kind = "hourly"
	KindExport Kind = "export"
)

// Checkpoint is a signed statement of the hash that a tenant's chain had after a record.
type Checkpoint struct {
	TenantID  uuid.UUID
	Seq       int64
	Hash      Hash
	Kind      Kind
	At        time.Time // to the microsecond
	KID       string
	Signature []byte
}

// SignCheckpoint fills in KID and Signature.
func (s *Signer) SignCheckpoint(c *Checkpoint) {
	c.KID = s.kid
	c.Signature = ed25519.Sign(s.key, c.appendSigned([]byte(checkpointDomain)))
}

// Verify reports whether the key is known, and whether the signature is good.
func (c *Checkpoint) Verify(keys Keys) (known, good bool) {
	return keys.verify(c.KID, c.appendSigned([]byte(checkpointDomain)), c.Signature)
}

// appendSigned appends the line up to the signature: the part that is signed.
func (c *Checkpoint) appendSigned(b []byte) []byte {
	b = append(b, `{"type":"checkpoint"`...)
	b = appendMember(b, "tenant_id", c.TenantID.String())
	b = appendNumber(b, "seq", c.Seq)
	b = appendMember(b, "hash", c.Hash.String())
	b = appendMember(b, "kind", string(c.Kind))
	b = appendMember(b, "at", c.At.UTC().Format(TimeFormat))
	return appendMember(b, "kid", c.KID)
}

// AppendLine appends the checkpoint with its line end.
func (c *Checkpoint) AppendLine(b []byte) []byte {
	return appendSignature(c.appendSigned(b), c.Signature)
}

func appendSignature(b, signature []byte) []byte {
	b = append(b, `,"signature":"`...)
	b = base64.StdEncoding.AppendEncode(b, signature)
	return append(b, '"', '}', '\n')
}

// Trailer is the last line of an export. Its signature covers every byte before it.
type Trailer struct {
	TenantID uuid.UUID
	FirstSeq int64
	LastSeq  int64 // FirstSeq-1 where the export has no records
	PrevHash Hash
	LastHash Hash
	Count    int64 // of records, shown or not
	Shown    int64
	Filters  []byte
	Content  Hash // SHA-256 of all lines before this one
	At       time.Time
	KID      string
	// Signature is Ed25519 over the line up to the signature.
	Signature []byte
}

// SignTrailer fills in KID and Signature.
func (s *Signer) SignTrailer(t *Trailer) {
	t.KID = s.kid
	t.Signature = ed25519.Sign(s.key, t.appendSigned([]byte(trailerDomain)))
}

func (t *Trailer) appendSigned(b []byte) []byte {
	b = append(b, `{"type":"trailer"`...)
	b = appendMember(b, "tenant_id", t.TenantID.String())
	b = appendNumber(b, "first_seq", t.FirstSeq)
	b = appendNumber(b, "last_seq", t.LastSeq)
	b = appendMember(b, "prev_hash", t.PrevHash.String())
	b = appendMember(b, "last_hash", t.LastHash.String())
	b = appendNumber(b, "count", t.Count)
	b = appendNumber(b, "shown", t.Shown)
	b = append(b, `,"filters":`...)
	b = append(b, t.Filters...)
	b = appendMember(b, "content_sha256", t.Content.String())
	b = appendMember(b, "at", t.At.UTC().Format(TimeFormat))
	return appendMember(b, "kid", t.KID)
}

// AppendLine appends the trailer with its line end.
func (t *Trailer) AppendLine(b []byte) []byte { return appendSignature(t.appendSigned(b), t.Signature) }
