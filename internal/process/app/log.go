package app

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"

	"agentruntime/internal/base/redact"
	"agentruntime/internal/process/config"
)

// Log returns the log of the process. Attributes whose names look secret are masked in
// all of it. Text has colors on a terminal only, and not where NO_COLOR is set.
func Log(cfg config.Config, w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return nil, fmt.Errorf("app: LOG_LEVEL must be debug, info, warn or error, not %q", cfg.LogLevel)
	}
	var h slog.Handler
	switch cfg.LogFormat {
	case "json":
		h = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: withUnits})
	case "text":
		h = tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !colored(w)})
	default:
		return nil, fmt.Errorf("app: LOG_FORMAT must be json or text, not %q", cfg.LogFormat)
	}
	return slog.New(redact.NewLogHandler(h)), nil
}

// withUnits writes a duration as text with its unit, "1.5s", where JSON would have a bare number.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// colored reports whether w shows colors. NO_COLOR is the convention of no-color.org.
func colored(w io.Writer) bool {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
