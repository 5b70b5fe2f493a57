package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"agentruntime/api/wire"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/mapgraph"
	"agentruntime/internal/maps/stepmachine"
)

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
func (h *mapHandlers) getMapGraph(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	format, err := graphFormatOf(c)
	if err != nil {
		return wire.Reply{}, err
	}
	number, err := queryVersion(c, "version") // 0 is the newest one
	if err != nil {
		return wire.Reply{}, err
	}
	version, err := h.maps.Version(ctx, c.Actor.TenantID, c.ID(), number)
	if err != nil {
		return wire.Reply{}, err
	}
	d := &mapdef.Definition{}
	if err := json.Unmarshal(version.Source, d); err != nil {
		return wire.Reply{}, fmt.Errorf("api: draw version %d of a Map: %w", version.Number, err)
	}
	return wire.Reply{}, drawMap(c, d, nil, format, hex.EncodeToString(version.Digest))
}

// graphPolicy lets a browser that shows the drawing load nothing.
const graphPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

// drawMap answers with the drawing of a definition. content names what is drawn, for the ETag.
func drawMap(c *wire.Call, d *mapdef.Definition, states map[string]mapgraph.State, format graphFormat, content string) error {
	var drawing []byte
	kind, name := "text/plain; charset=utf-8", "graph.mmd"
	if format == graphSVG {
		drawing, kind, name = mapgraph.SVG(d, states), "image/svg+xml", "graph.svg"
	} else {
		drawing = []byte(mapgraph.Mermaid(d, states))
	}
	header := http.Header{
		"Content-Type": {kind}, "Content-Disposition": {`inline; filename="` + name + `"`}, "Content-Length": {strconv.Itoa(len(drawing))}, "Content-Security-Policy": {graphPolicy}, "Vary": {"Accept"},
	}
	return c.StreamObject(`"`+content+"-"+string(format)+`"`, header, func(w io.Writer) error {
		_, err := w.Write(drawing)
		return err
	})
}

// getExecutionGraph draws the version that an execution of a Map runs, with the states of its
// steps coloured.
func (h *mapHandlers) getExecutionGraph(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	format, err := graphFormatOf(c)
	if err != nil {
		return wire.Reply{}, err
	}
	e, err := h.namedExecution(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	d, steps, err := h.executions.States(ctx, e)
	if err != nil {
		return wire.Reply{}, err
	}
	states := map[string]mapgraph.State{}
	content := sha256.New()
	_, _ = fmt.Fprintf(content, "%s %d", e.MapID, e.Version)
	for _, id := range slices.Sorted(maps.Keys(steps)) {
		states[id] = graphState(steps[id], e.Waits(), id)
		_, _ = fmt.Fprintf(content, " %s %s", id, states[id])
	}
	return wire.Reply{}, drawMap(c, d, states, format, hex.EncodeToString(content.Sum(nil)))
}

// graphState returns the colour of a step.
func graphState(status stepmachine.StepStatus, waits *stepmachine.WaitsFor, step string) mapgraph.State {
	switch status {
	case stepmachine.StepRunning:
		return mapgraph.Running
	case stepmachine.StepWaiting, stepmachine.StepUnknown:
		if waits != nil && waits.Step == step && waits.For == stepmachine.WaitsApproval {
			return mapgraph.PendingApproval
		}
		return mapgraph.Waiting
	case stepmachine.StepCompleted:
		return mapgraph.Completed
	case stepmachine.StepFailed:
		return mapgraph.Failed
	case stepmachine.StepSkipped:
		return mapgraph.Skipped
	case stepmachine.StepCancelled:
		return mapgraph.Cancelled
	default:
		return ""
	}
}
