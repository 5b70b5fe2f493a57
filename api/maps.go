package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/service/authoring"
)

// Maps is what the endpoints of Maps need of the domain.
type Maps interface {
	List(ctx context.Context, tenant uuid.UUID, f definition.Filter) (page []definition.Map, more bool, err error)
	Version(ctx context.Context, tenant, id uuid.UUID, number int32) (definition.Stored, error)
	Versions(ctx context.Context, tenant, id uuid.UUID, before int32, limit int) (page []definition.Stored, more bool, err error)
	Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[int32]) error
}

// Authoring checks definitions and stores them.
type Authoring interface {
	Validate(ctx context.Context, who authoring.Caller, source json.RawMessage) (authoring.Report, error)
	Create(ctx context.Context, who authoring.Caller, source json.RawMessage, publish bool) (authoring.Checked, error)
	Replace(ctx context.Context, who authoring.Caller, id uuid.UUID, source json.RawMessage, publish bool, expect fault.Expect[int32]) (authoring.Checked, error)
	Publish(ctx context.Context, who actor.Actor, id uuid.UUID, number int32) (authoring.Checked, error)
	Get(ctx context.Context, tenant, id uuid.UUID) (authoring.Checked, error)
}

// mapView is a Map in a list. Name, description, version, status and map_type are those of its
// newest version.
type mapView struct {
	ID               uuid.UUID      `json:"id"`
	Name             string         `json:"name"`
	Description      string         `json:"description"`
	Version          int32          `json:"version"`
	Status           string         `json:"status"`
	PublishedVersion *int32         `json:"published_version"`
	PublishedAt      *time.Time     `json:"published_at"`
	PublishedBy      *string        `json:"published_by"`
	MapType          mapdef.MapType `json:"map_type"`
	CreatedAt        time.Time      `json:"created_at"`
	CreatedBy        string         `json:"created_by"`
	UpdatedAt        time.Time      `json:"updated_at"`
	UpdatedBy        string         `json:"updated_by"`
}

// mapDetail is a Map with the definition of its newest version.
type mapDetail struct {
	mapView

	Definition json.RawMessage `json:"definition"`
	Warnings   []mapdef.Fault  `json:"warnings"`

	repeatMark
}

func viewMap(m definition.Map) mapView {
	return mapView{
		ID: m.ID, Name: m.Name, Description: m.Description, Version: m.Newest, Status: statusOfVersion(m.Published != nil && *m.Published == m.Newest), PublishedVersion: m.Published, PublishedAt: m.PublishedAt,
		PublishedBy: m.PublishedBy, MapType: m.MapType, CreatedAt: m.CreatedAt, CreatedBy: m.CreatedBy, UpdatedAt: m.UpdatedAt, UpdatedBy: m.UpdatedBy,
	}
}

// answerMap answers with a Map, and its revision as the ETag. Warnings change without it.
func answerMap(m authoring.Checked) wire.Reply {
	detail := mapDetail{mapView: viewMap(m.Map), Definition: m.Version.Source, Warnings: wire.Array(m.Warnings)}
	return wire.Reply{Data: detail, Header: http.Header{"Etag": {wire.VersionTag(m.Revision)}}}
}

// yamlTypes are the media types of definitions beside JSON.
func yamlTypes() []string { return []string{"application/yaml", "application/x-yaml", "text/yaml"} }

// mapSource returns the definition in the body as JSON, or what is wrong with its YAML. A body that
// is no JSON is INVALID_JSON, as everywhere.
func mapSource(c *wire.Call) (json.RawMessage, []mapdef.Fault, error) {
	if slices.Contains(yamlTypes(), c.BodyType()) {
		source, faults := mapdef.FromYAML(c.Body())
		return source, faults, nil
	}
	return c.Body(), nil, strictjson.Check(c.Body(), strictjson.Options{Free: []string{""}, MaxDepth: mapdef.MaxJSONDepth})
}

// mapInput reads a call that stores a definition.
func mapInput(c *wire.Call) (source json.RawMessage, publish bool, err error) {
	yes, err := c.QueryBool("publish")
	if err != nil {
		return nil, false, err
	}
	source, faults, err := mapSource(c)
	if err == nil && len(faults) > 0 {
		err = definition.Invalid(faults)
	}
	return source, yes != nil && *yes, err
}

func author(c *wire.Call) authoring.Caller {
	return authoring.Caller{Actor: c.Actor, ReadsCatalog: c.ReadsCatalog}
}

func (h *mapHandlers) createMap(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	source, publish, err := mapInput(c)
	if err != nil {
		return wire.Reply{}, err
	}
	m, err := h.authoring.Create(ctx, author(c), source, publish)
	if err != nil {
		return wire.Reply{}, err
	}
	return answerCreated(answerMap(m), "/v1/maps", m.ID), nil
}

func (h *mapHandlers) putMap(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	source, publish, err := mapInput(c)
	if err != nil {
		return wire.Reply{}, err
	}
	m, err := h.authoring.Replace(ctx, author(c), c.ID(), source, publish, wire.Expect(c, wire.VersionTag))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerMap(m), nil
}

func (h *mapHandlers) getMap(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	m, err := h.authoring.Get(ctx, c.Actor.TenantID, c.ID())
	if err != nil {
		return wire.Reply{}, err
	}
	return answerMap(m), nil
}

func (h *mapHandlers) deleteMap(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.maps.Delete(ctx, c.Actor, c.ID(), wire.Expect(c, wire.VersionTag)))
}

type publishBody struct {
	Version *int32 `json:"version"`
}

// publishMap publishes the newest version where the body names none.
func (h *mapHandlers) publishMap(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b publishBody
	if err := c.DecodeOptional(&b); err != nil {
		return wire.Reply{}, err
	}
	var number int32
	if b.Version != nil {
		if number = *b.Version; number < 1 {
			return wire.Reply{}, fault.Invalid("/version", "minimum", "version is the number of a version, from 1.")
		}
	}
	m, err := h.authoring.Publish(ctx, c.Actor, c.ID(), number)
	if err != nil {
		return wire.Reply{}, err
	}
	return answerMap(m), nil
}

// mapReport is what validation says.
type mapReport struct {
	Valid    bool            `json:"valid"`
	Errors   []mapdef.Fault  `json:"errors"`
	Warnings []mapdef.Fault  `json:"warnings"`
	MapType  *mapdef.MapType `json:"map_type"`
}

func (h *mapHandlers) validateMap(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	source, faults, err := mapSource(c)
	if err != nil {
		return wire.Reply{}, err
	}
	if len(faults) > 0 {
		return wire.OK(mapReport{Errors: faults, Warnings: []mapdef.Fault{}}), nil
	}
	r, err := h.authoring.Validate(ctx, author(c), source)
	if err != nil {
		return wire.Reply{}, err
	}
	view := mapReport{Valid: len(r.Errors) == 0, Errors: wire.Array(r.Errors), Warnings: wire.Array(r.Warnings)}
	if view.Valid {
		view.MapType = &r.MapType
	}
	return wire.OK(view), nil
}

func (h *mapHandlers) listMaps(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var f definition.Filter
	var err error
	if f.Limit, f.Before, err = c.PageByID(); err != nil {
		return wire.Reply{}, err
	}
	if f.Published, err = c.QueryBool("published"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	if f.Search = v.QueryText(c, "search"); len(f.Search) > maxSearch {
		v.Add("query.search", "maxLength", "search has at most 120 bytes.")
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	maps, more, err := h.maps.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, maps, more, viewMap, func(m definition.Map) uuid.UUID { return m.ID }), nil
}

// mapVersionView is a version in a list.
type mapVersionView struct {
	MapID uuid.UUID `json:"map_id"`
	definitionVersion
}

// mapVersionDetail is a version with its definition.
type mapVersionDetail struct {
	mapVersionView

	MapType    mapdef.MapType  `json:"map_type"`
	Definition json.RawMessage `json:"definition"`
}

func viewMapVersion(v definition.Stored) mapVersionView {
	return mapVersionView{MapID: v.MapID, definitionVersion: definitionVersion{
		Version: v.Number, Name: v.Name, Status: statusOfVersion(v.Current), Size: v.Size, Digest: hex.EncodeToString(v.Digest),
		CreatedAt: v.CreatedAt, CreatedBy: v.CreatedBy, PublishedAt: v.PublishedAt, PublishedBy: v.PublishedBy,
	}}
}

func (h *mapHandlers) listMapVersions(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return listVersions(ctx, c, h.maps.Versions, viewMapVersion, func(v definition.Stored) int32 { return v.Number })
}

func (h *mapHandlers) getMapVersion(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	number, err := pathVersion(c, fault.CodeMapNotFound)
	if err != nil {
		return wire.Reply{}, err
	}
	v, err := h.maps.Version(ctx, c.Actor.TenantID, c.ID(), number)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(mapVersionDetail{mapVersionView: viewMapVersion(v), MapType: v.MapType, Definition: v.Source}), nil
}
