//go:build conformance

package conformance

import (
	"net/http"
)

const mapsPath = "/v1/maps"

// looksUp is the definition of a Map with one call.
func looksUp(name string) object {
	return object{"schema_version": "1", "name": name, "steps": []object{{"id": "list", "type": "verb", "verb": "gated:list", "args": object{}}}}
}

// starting is the definition of a Map that starts another one.
func starting(id string) object {
	return object{"schema_version": "1", "name": "Starts another", "steps": []object{{"id": "other", "type": "map", "map_id": id}}}
}

// maps stores definitions, publishes and draws them.
func (j *journey) maps() {
	const yaml = "schema_version: \"1\"\nname: In YAML\nsteps:\n  - { id: list, type: verb, verb: gated:list, args: {} }\n"
	inYAML := j.post(j.user, 201, mapsPath, []byte(yaml), "Content-Type: application/yaml").Header.Get("Location")
	one := j.post(j.user, 201, mapsPath+"?publish=true", looksUp("Published")).Header.Get("Location")
	faulty := looksUp("Faulty")
	faulty["steps"] = []object{{"id": "none", "type": "verb", "verb": "gated:none", "args": object{}}}
	j.refused(j.user, 422, "INVALID_MAP", http.MethodPost, mapsPath, faulty)
	j.refused(j.user, 422, "INVALID_MAP", http.MethodPost, mapsPath, []byte("[]"))
	j.refused(j.user, 422, "INVALID_MAP", http.MethodPut, one, faulty)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, mapsPath+"?publish=perhaps", looksUp("x"))
	j.post(j.user, 200, mapsPath+"/validate", faulty)
	j.post(j.user, 200, mapsPath+"/validate", looksUp("x"))
	for _, query := range []string{"", "?limit=1", "?search=publ&published=true"} {
		j.get(j.user, 200, mapsPath+query)
	}
	for _, query := range []string{"?limit=0", "?published=perhaps", "?cursor=x"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, mapsPath+query, nil)
	}
	j.call(j.user, 200, http.MethodPut, one, looksUp("Changed"))
	j.get(j.user, 200, one)
	j.get(j.user, 200, one+"/versions?limit=1")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"/versions?limit=0", nil)
	j.get(j.user, 200, one+"/versions/2")
	j.get(j.user, 404, one+"/versions/9")
	j.post(j.user, 200, one+"/publish", nil)
	j.post(j.user, 200, one+"/publish", object{"version": 1})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, one+"/publish", object{"version": 0})
	j.refused(j.user, 404, "MAP_NOT_FOUND", http.MethodPost, one+"/publish", object{"version": 9})
	for _, query := range []string{"", "?version=1&format=svg"} {
		j.get(j.user, 200, one+"/graph"+query)
	}
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"/graph?format=png", nil)

	var draft struct{ ID string }
	j.call(j.user, 200, http.MethodGet, inYAML, nil).Data(j.t, &draft)
	above := j.post(j.user, 201, mapsPath, starting(draft.ID)).Header.Get("Location")
	j.refused(j.user, 422, "INVALID_MAP", http.MethodPost, above+"/publish", nil) // the other one is a draft
	j.post(j.user, 200, inYAML+"/publish", nil)
	j.post(j.user, 200, above+"/publish", nil)
	j.refused(j.user, 409, "CONFLICT", http.MethodDelete, inYAML, nil)
	j.drop(above)
	j.drop(inYAML)
	j.unknownMaps()
}

func (j *journey) unknownMaps() {
	const none = mapsPath + "/" + nobodys
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, none, nil},
		{http.MethodPut, none, looksUp("x")},
		{http.MethodDelete, none, nil},
		{http.MethodGet, none + "/versions", nil},
		{http.MethodGet, none + "/versions/1", nil},
		{http.MethodPost, none + "/publish", nil},
		{http.MethodGet, none + "/graph", nil},
	} {
		j.refused(j.user, 404, "MAP_NOT_FOUND", c.method, c.path, c.body)
	}
}
