package redact

import (
	"context"
	"log/slog"
	"slices"
)

// LogHandler is a slog.Handler that masks attributes before the next handler gets
// them: those whose key looks secret, within groups too. See LooksSecret.
type LogHandler struct {
	next slog.Handler
}

// NewLogHandler returns a handler that masks and hands on to next.
func NewLogHandler(next slog.Handler) *LogHandler { return &LogHandler{next: next} }

// Enabled implements slog.Handler.
func (h *LogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *LogHandler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(maskAttr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h *LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &LogHandler{next: h.next.WithAttrs(maskAttrs(attrs))}
}

// WithGroup implements slog.Handler.
func (h *LogHandler) WithGroup(name string) slog.Handler {
	return &LogHandler{next: h.next.WithGroup(name)}
}

func maskAttrs(attrs []slog.Attr) []slog.Attr {
	out := slices.Clone(attrs)
	for i, a := range out {
		out[i] = maskAttr(a)
	}
	return out
}

func maskAttr(a slog.Attr) slog.Attr {
	if LooksSecret(a.Key) {
		return slog.String(a.Key, Masked)
	}
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(maskAttrs(value.Group())...)}
	}
	return slog.Attr{Key: a.Key, Value: value}
}
