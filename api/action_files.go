package api

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
)

// Files reads the files that results name.
type Files interface {
	Has(ctx context.Context, tenant, run, file uuid.UUID) (bool, error)
	CopyTo(ctx context.Context, tenant, run, file uuid.UUID, size int64, out io.Writer) error
}

// getFile sends a file of a result. A provider wrote it, so no browser may show it or run it: it is an
// attachment of the named type, in a sandbox.
func (h *actionHandlers) getFile(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	room := &answerRoom{answers: h.answers, c: c}
	f, err := h.runs.File(run.WithRoom(ctx, room.take), c.Actor, c.Param("id"), c.Param("file"))
	if err != nil {
		return wire.Reply{}, err
	}
	switch has, err := h.files.Has(ctx, f.TenantID, f.RunID, f.ID); {
	case err != nil:
		return wire.Reply{}, err
	case !has:
		return wire.Reply{}, fault.New(fault.CodeFileNotFound, "")
	}
	header := http.Header{
		"Content-Type":            {f.MediaType},
		"Content-Length":          {strconv.FormatInt(f.Size, 10)},
		"Content-Disposition":     {attachment(f)},
		"X-Content-Type-Options":  {"nosniff"},
		"Content-Security-Policy": {"sandbox; default-src 'none'"},
	}
	return wire.Reply{}, c.StreamObject(strconv.Quote(f.SHA256), header, func(w io.Writer) error {
		return h.files.CopyTo(ctx, f.TenantID, f.RunID, f.ID, f.Size, w)
	})
}

// attachment returns the Content-Disposition of a file. Its name was made safe when it was stored; one
// without a name is called by its id.
func attachment(f run.File) string {
	name := f.Name
	if name == "" {
		name = f.ID.String()
	}
	if text := mime.FormatMediaType("attachment", map[string]string{"filename": name}); text != "" {
		return text
	}
	return "attachment"
}
