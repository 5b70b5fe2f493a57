package devserver

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// serverLogger hands the Temporal server's warnings and errors to slog, as long
// as the server is not stopping: its services then complain about one another.
type serverLogger struct {
	log      *slog.Logger
	stopping *atomic.Bool
	tags     []tag.Tag // turned into attributes when something is written, which is seldom
}

var _ log.WithLogger = (*serverLogger)(nil)

func (l *serverLogger) write(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if l.stopping.Load() || !l.log.Enabled(ctx, level) || expected(msg) {
		return
	}
	l.log.LogAttrs(ctx, level, msg, attrs(slices.Concat(l.tags, tags))...) //nolint:sloglint // the message is the server's
}

// expected tells the warnings that every start gives and nobody can act upon.
func expected(msg string) bool {
	return strings.HasPrefix(msg, "HTTP API port has not been set") // for Nexus endpoints, which we have none of
}

func attrs(tags []tag.Tag) []slog.Attr {
	list := make([]slog.Attr, 0, len(tags))
	for _, t := range tags {
		list = append(list, slog.Any(t.Key(), t.Value()))
	}
	return list
}

// Debug is dropped: it is for those who work on the server itself.
func (l *serverLogger) Debug(string, ...tag.Tag) {}

// Info is dropped: a start alone says some hundred lines.
func (l *serverLogger) Info(string, ...tag.Tag) {}

// Warn implements log.Logger.
func (l *serverLogger) Warn(msg string, tags ...tag.Tag) { l.write(slog.LevelWarn, msg, tags) }

// Error implements log.Logger.
func (l *serverLogger) Error(msg string, tags ...tag.Tag) { l.write(slog.LevelError, msg, tags) }

// DPanic logs: the server calls it for what must not happen but does no harm.
func (l *serverLogger) DPanic(msg string, tags ...tag.Tag) { l.write(slog.LevelError, msg, tags) }

// Panic logs and panics, as the server expects.
func (l *serverLogger) Panic(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	panic("temporal: " + msg)
}

// Fatal logs and panics: the server does not go on after it, and ending the
// process without a word would leave Postgres unstopped.
func (l *serverLogger) Fatal(msg string, tags ...tag.Tag) { l.Panic(msg, tags...) }

// With implements log.WithLogger. The server calls it for each workflow.
func (l *serverLogger) With(tags ...tag.Tag) log.Logger {
	return &serverLogger{log: l.log, stopping: l.stopping, tags: slices.Concat(l.tags, tags)}
}

// quietSDK keeps the SDK's own notes about the readiness probe out of the log.
type quietSDK struct{}

// Debug implements the SDK's log.Logger.
func (quietSDK) Debug(string, ...any) {}

// Info implements the SDK's log.Logger.
func (quietSDK) Info(string, ...any) {}

// Warn implements the SDK's log.Logger.
func (quietSDK) Warn(string, ...any) {}

// Error implements the SDK's log.Logger.
func (quietSDK) Error(string, ...any) {}
