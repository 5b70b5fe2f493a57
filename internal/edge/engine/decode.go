package engine

import (
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
			list.Payloads[i] = open[0]
		}
	}
	return protojson.Marshal(&list)
}
