package chain

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Summary describes a file that was found good.
type Summary struct {
	TenantID    uuid.UUID
	FirstSeq    int64
	LastSeq     int64
	LastHash    Hash
	Records     int64 // shown
	Hidden      int64 // left out by the filters; the file has only their hashes
	Checkpoints int64
	Filters     string // JSON object
	ExportedAt  time.Time
	KID         string // of the key that signed the export
}

// FileError is the first thing that is wrong with a file.
type FileError struct {
	Line int64 // from 1
	Seq  int64 // of the record, or the last one before; 0 where there was none
	What string
}

// Error implements error.
func (p *FileError) Error() string {
	return fmt.Sprintf("line %d, after or at record %d: %s", p.Line, p.Seq, p.What)
}

const (
	// readBuffer is large enough for most lines, in bytes; longer lines are put together.
	readBuffer = 1 << 20
	// maxLine is the most bytes of a line. A record has the masked arguments of a call, of
	// at most 1 MiB. JSON's escapes may make them six times as long.
	maxLine = 64 << 20
)

// Verify reads an NDJSON export to its end and returns its summary. The error is a
// *FileError where the file is not what the service exported, and another error where the
// file could not be read.
func Verify(r io.Reader, keys Keys) (Summary, error) {
	v := &verifier{in: bufio.NewReaderSize(r, readBuffer), keys: keys, content: sha256.New()}
	if err := v.run(); err != nil {
		return Summary{}, err
	}
	return v.sum, nil
}

type verifier struct {
	in      *bufio.Reader
	long    []byte // a line longer than the buffer
	keys    Keys
	content hash.Hash // of the lines before the current one

	line    int64
	header  Header
	begun   bool // the header was read
	done    bool // the trailer was read
	whole   bool // the export has no filters
	seq     int64
	last    Hash
	sum     Summary
	scratch []byte
}

func (v *verifier) problem(format string, args ...any) error {
	return &FileError{Line: v.line, Seq: v.seq, What: fmt.Sprintf(format, args...)}
}

func (v *verifier) run() error {
	for {
		line, err := v.read()
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		v.line++
		if errors.Is(err, io.EOF) {
			return v.problem("the file ends within a line: it was cut")
		}
		if err != nil {
			return err
		}
		if err := v.take(line); err != nil {
			return err
		}
		_, _ = v.content.Write(line) // a hash never fails
	}
	switch {
	case !v.begun:
		return v.problem("the file is empty")
	case !v.done:
		return v.problem("the file ends without its signed trailer: it was cut")
	}
	return nil
}

// read returns the next line with its line end, valid until the next call.
func (v *verifier) read() ([]byte, error) {
	line, err := v.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	v.long = append(v.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = v.in.ReadSlice('\n')
		if v.long = append(v.long, line...); len(v.long) > maxLine {
			v.line++
			return nil, v.problem("the line is longer than any record")
		}
	}
	return v.long, err
}

func (v *verifier) take(line []byte) error {
	switch {
	case v.done:
		return v.problem("there is more after the signed trailer")
	case !v.begun:
		return v.takeHeader(line)
	case bytes.HasPrefix(line, []byte(seqMember)):
		return v.takeEntry(line)
	case bytes.HasPrefix(line, []byte(`{"type":"checkpoint",`)):
		return v.takeCheckpoint(line)
	case bytes.HasPrefix(line, []byte(`{"type":"trailer",`)):
		return v.takeTrailer(line)
	default:
		return v.problem("the line is neither a record nor a checkpoint nor the trailer")
	}
}

// lineText is the header, a checkpoint or the trailer as JSON. The verifier reads a line
// with it, writes it again and compares. So there is one way to write each line.
type lineText struct {
	Type      string          `json:"type"`
	Format    string          `json:"format"`
	Version   int             `json:"version"`
	TenantID  uuid.UUID       `json:"tenant_id"`
	FirstSeq  int64           `json:"first_seq"`
	LastSeq   int64           `json:"last_seq"`
	Seq       int64           `json:"seq"`
	PrevHash  hexHash         `json:"prev_hash"`
	LastHash  hexHash         `json:"last_hash"`
	Hash      hexHash         `json:"hash"`
	Count     int64           `json:"count"`
	Shown     int64           `json:"shown"`
	Filters   json.RawMessage `json:"filters"`
	Content   hexHash         `json:"content_sha256"`
	Kind      Kind            `json:"kind"`
	At        time.Time       `json:"at"`
	KID       string          `json:"kid"`
	Signature []byte          `json:"signature"`
}

type hexHash Hash

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hexHash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return errors.New("chain: a hash has 64 hex digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

func (v *verifier) takeHeader(line []byte) error {
	var t lineText
	if json.Unmarshal(line, &t) != nil || t.Type != "header" || t.Format != Format {
		return v.problem("the first line is not the header of an audit export")
	}
	if t.Version != Version {
		return v.problem("the export has version %d; this program knows version %d", t.Version, Version)
	}
	v.header = Header{TenantID: t.TenantID, FirstSeq: t.FirstSeq, PrevHash: Hash(t.PrevHash), Filters: bytes.Clone(t.Filters)}
	if !bytes.Equal(v.header.AppendLine(nil), line) {
		return v.problem("the header is not in the form that the service writes")
	}
	v.whole = string(v.header.Filters) == "{}"
	switch {
	case t.FirstSeq < 1:
		return v.problem("records are counted from 1")
	case t.FirstSeq == 1 && v.header.PrevHash != Genesis(t.TenantID):
		return v.problem("the chain does not begin where that of its tenant does")
	case t.FirstSeq != 1 && v.whole:
		return v.problem("an export without filters begins with the first record")
	}
	v.begun, v.seq, v.last = true, t.FirstSeq-1, v.header.PrevHash
	return nil
}

func (v *verifier) takeEntry(line []byte) error {
	seq, hash, rest, ok := cutEntry(line)
	switch {
	case !ok:
		return v.problem("the record's line is damaged")
	case seq != v.seq+1:
		return v.problem("record %d follows record %d", seq, v.seq)
	}
	v.seq = seq
	var leaf Hash
	if text, shown := bytes.CutPrefix(rest, []byte(recordMember)); shown {
		text, ok = bytes.CutSuffix(text, []byte("}\n"))
		leaf = Leaf(text)
		v.sum.Records++
	} else {
		leaf, ok = cutLeaf(rest)
		if ok && v.whole {
			return v.problem("the record is missing, and the export has no filters that leave it out")
		}
		v.sum.Hidden++
	}
	if !ok {
		return v.problem("the record's line is damaged")
	}
	if v.last = Link(v.last, leaf); v.last != hash {
		return v.problem("the record is not the one that was sealed: its hash does not follow from it and the record before")
	}
	return nil
}

// cutEntry splits a line into number, hash and the rest: {"seq":N,"hash":"HEX" and what
// follows.
func cutEntry(line []byte) (seq int64, h Hash, rest []byte, ok bool) {
	rest = line[len(seqMember):]
	end := bytes.IndexByte(rest, ',')
	if end < 1 || end > 18 || rest[0] == '0' {
		return 0, h, nil, false
	}
	for _, c := range rest[:end] {
		if c < '0' || c > '9' {
			return 0, h, nil, false
		}
		seq = seq*10 + int64(c-'0')
	}
	rest, ok = bytes.CutPrefix(rest[end:], []byte(hashMember))
	if !ok {
		return 0, h, nil, false
	}
	h, ok = cutHash(rest)
	if !ok {
		return 0, h, nil, false
	}
	return seq, h, rest[2*len(h):], true
}

func cutLeaf(rest []byte) (h Hash, ok bool) {
	rest, ok = bytes.CutPrefix(rest, []byte(leafMember))
	if !ok {
		return h, false
	}
	h, ok = cutHash(rest)
	return h, ok && string(rest[2*len(h):]) == "\"}\n"
}

// cutHash reads 64 lower-case hex digits.
func cutHash(b []byte) (h Hash, ok bool) {
	if len(b) < 2*len(h) {
		return h, false
	}
	b = b[:2*len(h)]
	for _, c := range b {
		if c >= 'A' && c <= 'F' {
			return h, false
		}
	}
	_, err := hex.Decode(h[:], b)
	return h, err == nil
}

func (v *verifier) takeCheckpoint(line []byte) error {
	var t lineText
	if json.Unmarshal(line, &t) != nil {
		return v.problem("the checkpoint is damaged")
	}
	c := Checkpoint{TenantID: t.TenantID, Seq: t.Seq, Hash: Hash(t.Hash), Kind: t.Kind, At: t.At, KID: t.KID, Signature: t.Signature}
	v.scratch = c.AppendLine(v.scratch[:0])
	known, good := c.Verify(v.keys)
	switch {
	case !bytes.Equal(v.scratch, line):
		return v.problem("the checkpoint is not in the form that the service writes")
	case !known:
		return v.problem("the checkpoint is signed with the key %s, which is not among the given ones", strconv.Quote(c.KID))
	case !good:
		return v.problem("the signature of the checkpoint is false")
	case c.TenantID != v.header.TenantID:
		return v.problem("the checkpoint is another tenant's")
	case c.Seq != v.seq || c.Hash != v.last:
		return v.problem("the checkpoint was signed for another record %d", c.Seq)
	}
	v.sum.Checkpoints++
	return nil
}

func (v *verifier) takeTrailer(line []byte) error {
	var l lineText
	if json.Unmarshal(line, &l) != nil {
		return v.problem("the trailer is damaged")
	}
	t := Trailer{
		TenantID: l.TenantID, FirstSeq: l.FirstSeq, LastSeq: l.LastSeq, PrevHash: Hash(l.PrevHash), LastHash: Hash(l.LastHash),
		Count: l.Count, Shown: l.Shown, Filters: l.Filters, Content: Hash(l.Content), At: l.At, KID: l.KID, Signature: l.Signature,
	}
	known, good := v.keys.verify(t.KID, t.appendSigned([]byte(trailerDomain)), t.Signature)
	switch {
	case !bytes.Equal(t.AppendLine(nil), line):
		return v.problem("the trailer is not in the form that the service writes")
	case !known:
		return v.problem("the export is signed with the key %s, which is not among the given ones", strconv.Quote(t.KID))
	case !good:
		return v.problem("the signature of the trailer is false")
	case t.TenantID != v.header.TenantID:
		return v.problem("the trailer is of another tenant's export")
	case t.FirstSeq != v.header.FirstSeq || t.PrevHash != v.header.PrevHash || !bytes.Equal(t.Filters, v.header.Filters):
		return v.problem("the trailer is of an export with another header")
	case t.LastSeq != v.seq || t.LastHash != v.last || t.Count != v.sum.Records+v.sum.Hidden || t.Shown != v.sum.Records:
		return v.problem("the trailer was signed for records up to %d, %d of them shown", t.LastSeq, t.Shown)
	case t.Content != Hash(v.content.Sum(nil)):
		return v.problem("the lines before the trailer are not those that were signed")
	}
	v.done = true
	v.sum.TenantID, v.sum.FirstSeq, v.sum.LastSeq, v.sum.LastHash = t.TenantID, t.FirstSeq, t.LastSeq, t.LastHash
	v.sum.Filters, v.sum.ExportedAt, v.sum.KID = string(t.Filters), t.At, t.KID
	return nil
}
