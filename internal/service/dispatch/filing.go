package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/resultnote"
	"agentruntime/internal/record/resultfile"
)

const (
	// overlap is how much of a file is searched again with its next part: a credential may lie across.
	overlap = 16 << 10
	// dropWithin bounds the deletion of a file that is not wanted. What it leaves, a sweeper deletes.
	dropWithin = 5 * time.Second
)

var errWithheld = errors.New("dispatch: the file contains the credential of the call")

// filing stores a file with which a call is answered. A file cannot be cleared of the credential without
// becoming another one, so one that contains it is not kept.
type filing struct {
	ctx   context.Context //nolint:containedctx // of one attempt
	files *resultfile.Store
	a     Attempt
	w     *resultfile.Writer
	tail  []byte
}

// keep takes the next part. whole is how many bytes the file has, -1 where that is not known.
func (f *filing) keep(part []byte, whole int64) (err error) {
	window := append(f.tail, part...) //nolint:gocritic // the tail is made anew below
	if f.a.Leaks(window) {
		return errWithheld
	}
	if f.w == nil {
		if f.w, err = f.files.Begin(f.ctx, f.a.Tenant, whole); err != nil {
			return err
		}
	}
	f.tail = bytes.Clone(window[max(0, len(window)-overlap):])
	return f.w.Add(f.ctx, part)
}

// fileResult names a file in a result.
type fileResult struct {
	File fileView `json:"file"`
}

type fileView struct {
	ID        string `json:"id"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
	Name      string `json:"name"`
}

// end makes the result of a file that arrived whole, and says why another one is none.
func (f *filing) end(ctx context.Context, out httpcall.Outcome, a *run.Answer) {
	if f.w == nil && out.KeepErr == nil {
		return
	}
	err := out.KeepErr
	if err == nil && out.File != nil {
		err = f.w.End(ctx)
	}
	switch {
	case errors.Is(err, errWithheld):
		problem(a, resultnote.Withheld, "the file contains the credential of the call")
	case fault.HasCode(err, fault.CodeQuotaExceeded):
		problem(a, resultnote.OverQuota, fault.As(err).Message)
	case err != nil:
		problem(a, resultnote.NotStored, "the file could not be stored")
	case out.File != nil:
		media := httpfield.MediaType(out.ContentType)
		if media == "" {
			media = httpfield.Octets
		}
		id := f.w.ID()
		result, encoding := exactjson.Encode(fileResult{fileView{
			ID: id.String(), MediaType: media, Size: out.File.Size, SHA256: out.File.SHA256, Name: string(f.a.Clean([]byte(out.File.Name))),
		}})
		if encoding == nil {
			a.Result, a.Wrapped, a.File = result, httpcall.InFile, &id
			a.Complete, a.Problem, a.Note.Error = true, "", nil
			return
		}
	}
	if f.w != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropWithin)
		defer cancel()
		_ = f.w.Drop(ctx) // a sweeper deletes what stays
	}
}

// tooLarge says how large an answer may be.
func tooLarge(file bool) string {
	if file {
		return fmt.Sprintf("the response is larger than %d bytes", httpcall.MaxFileBytes)
	}
	return fmt.Sprintf("the response is larger than %d bytes", httpcall.DefaultMaxBytes)
}
