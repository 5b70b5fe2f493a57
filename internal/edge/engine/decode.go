package engine

import (
	"encoding/json"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// Decoder opens payloads for the Temporal UI. It cannot make any.
type Decoder struct{ codec *codec }

// NewDecoder returns a decoder. It returns an error for a wrong key.
func NewDecoder(id string, key []byte) (*Decoder, error) {
	c, err := newCodec(id, key)
	if err != nil {
		return nil, err
	}
	return &Decoder{codec: c}, nil
}

// DecodeJSON takes and returns {"payloads": […]}, as the UI sends it. A payload that was
// encrypted with another key stays as it is. It returns an error for another JSON.
func (d *Decoder) DecodeJSON(text []byte) ([]byte, error) {
	var list commonpb.Payloads
	if err := protojson.Unmarshal(text, &list); err != nil {
		return nil, errors.New("engine: the body is not a list of payloads")
	}
	for i, p := range list.Payloads {
		if open, err := d.codec.Decode([]*commonpb.Payload{p}); err == nil {
			list.Payloads[i] = withoutValues(open[0])
		}
	}
	return protojson.Marshal(&list)
}

// hidden takes the place of a payload with values of a tenant's Map: some may be secret for
// operators.
const hidden = `{"hidden":"The values of a Map are not shown here. GET /v1/executions/{id} shows them masked."}`

// withoutValues returns the payload, or hidden in its place; see flow.Private.
func withoutValues(p *commonpb.Payload) *commonpb.Payload {
	var content struct {
		Private bool `json:"private"`
		Carried *struct {
			Private bool `json:"private"`
		} `json:"carried"`
	}
	if json.Unmarshal(p.GetData(), &content) != nil || !content.Private && (content.Carried == nil || !content.Carried.Private) {
		return p
	}
	return &commonpb.Payload{Metadata: p.GetMetadata(), Data: []byte(hidden)}
}
