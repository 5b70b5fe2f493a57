package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/mapdef"
	"agentruntime/internal/kernel/mapgraph"
	"agentruntime/internal/maps/definition"
)

// mapVersion returns the version whose number the path names.
func (s *Server) mapVersion(ctx context.Context, c *wire.Call) (definition.Stored, error) {
	number, err := strconv.ParseInt(c.Param("version"), 10, 32)
	if err != nil || number < 1 {
		return definition.Stored{}, fault.New(fault.CodeMapNotFound, "")
	}
	return s.deps.Maps.Version(ctx, c.Actor.TenantID, c.ID(), int32(number))
}

// The forms of a graph.
type graphFormat string

const (
	graphMermaid graphFormat = "mermaid"
	graphSVG     graphFormat = "svg"
)

// graphFormatOf returns the form that the query or the Accept header asks for.
func graphFormatOf(c *wire.Call) (graphFormat, error) {
	var v wire.Validation
	format := wire.QueryOneOf(&v, c, "format", graphMermaid, graphSVG)
	if err := v.Err(); err != nil {
		return "", err
	}
	if format == "" {
		format = graphMermaid
		if strings.Contains(strings.Join(c.Request.Header.Values("Accept"), ","), "image/svg+xml") {
			format = graphSVG
		}
	}
	return format, nil
}

// getMapGraph draws a version of a Map, the newest one where the query names none. The answer has
// no envelope.
func (s *Server) getMapGraph(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	format, err := graphFormatOf(c)
	if err != nil {
		return wire.Reply{}, err
	}
	var number int64 // the newest version
	if text, given := c.Query("version"); given {
		if number, err = strconv.ParseInt(text, 10, 32); err != nil || number < 1 {
			return wire.Reply{}, fault.Invalid("query.version", "minimum", "version is the number of a version, from 1.")
		}
	}
	version, err := s.deps.Maps.Version(ctx, c.Actor.TenantID, c.ID(), int32(number))
	if err != nil {
		return wire.Reply{}, err
	}
	d := &mapdef.Definition{}
	if err := json.Unmarshal(version.Source, d); err != nil {
		return wire.Reply{}, fmt.Errorf("api: draw version %d of a Map: %w", version.Number, err)
	}
	return wire.Reply{}, drawMap(c, d, format, hex.EncodeToString(version.Digest))
}

// graphPolicy lets a browser that shows the drawing load nothing.
const graphPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

// drawMap answers with the drawing of a definition. content names what is drawn, for the ETag.
func drawMap(c *wire.Call, d *mapdef.Definition, format graphFormat, content string) error {
	var drawing []byte
	kind, name := "text/plain; charset=utf-8", "graph.mmd"
	if format == graphSVG {
		drawing, kind, name = mapgraph.SVG(d, nil), "image/svg+xml", "graph.svg"
	} else {
		drawing = []byte(mapgraph.Mermaid(d, nil))
	}
	header := http.Header{
		"Content-Type": {kind}, "Content-Disposition": {`inline; filename="` + name + `"`}, "Content-Length": {strconv.Itoa(len(drawing))}, "Content-Security-Policy": {graphPolicy}, "Vary": {"Accept"},
	}
	return c.StreamObject(`"`+content+"-"+string(format)+`"`, header, func(w io.Writer) error {
		_, err := w.Write(drawing)
		return err
	})
}
