// SPDX-License-Identifier: Apache-2.0

// The driver of the Go library. See tests/conformance/PROTOCOL.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	duetime "github.com/duetime/duetime/client/go"
)

// object is a JSON object to print.
type object = map[string]any

// request is a line of the runner. fields holds all of it.
type request struct {
	ID     int64           `json:"id"`
	Op     string          `json:"op"`
	Client string          `json:"client"`
	Body   json.RawMessage `json:"request"`
	Limit  *int            `json:"limit"`
	line   []byte
	ctx    context.Context
}

// read parses the whole line into a struct of an op's own fields.
func (r *request) read(fields any) error { return json.Unmarshal(r.line, fields) }

var (
	printing sync.Mutex
	output   = bufio.NewWriter(os.Stdout)
)

// emit prints one line.
func emit(line object) {
	bytes, err := json.Marshal(line)
	if err != nil {
		bytes, _ = json.Marshal(object{"id": line["id"], "error": driverError(err)})
	}
	printing.Lock()
	defer printing.Unlock()
	_, _ = output.Write(append(bytes, '\n'))
	_ = output.Flush()
}

func parse(body []byte, message proto.Message) error {
	if len(body) == 0 {
		return nil
	}
	return protojson.Unmarshal(body, message)
}

// toJSON returns a message as JSON with the original field names.
func toJSON(message proto.Message) any {
	bytes, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	if err != nil {
		panic(err)
	}
	return json.RawMessage(bytes)
}

func driverError(err error) object { return object{"code": "DRIVER", "message": err.Error()} }

// errorJSON returns what the library says of an error.
func errorJSON(err error) any {
	var failure *duetime.Error
	if !errors.As(err, &failure) {
		return driverError(err)
	}
	metadata := failure.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	fields := object{
		"code":     code.Code(failure.Code).String(),
		"reason":   failure.Reason,
		"message":  failure.Message,
		"metadata": metadata,
		"type":     strings.TrimPrefix(fmt.Sprintf("%T", failure), "*"),
	}
	if len(failure.Fields) > 0 {
		var names []string
		for _, field := range failure.Fields {
			names = append(names, field.Field)
		}
		fields["fields"] = names
	}
	if failure.RetryDelay > 0 {
		fields["retry_delay_ms"] = failure.RetryDelay.Milliseconds()
	}
	return fields
}

// millis returns otherwise if the field is absent.
func millis(value *int64, otherwise time.Duration) time.Duration {
	if value == nil {
		return otherwise
	}
	return time.Duration(*value) * time.Millisecond
}

func answer(d *driver, line []byte) {
	r := &request{line: line, ctx: context.Background()}
	if err := json.Unmarshal(line, r); err != nil {
		emit(object{"error": driverError(err)})
		return
	}
	run := d.ops[r.Op]
	if run == nil {
		emit(object{"id": r.ID, "error": driverError(errors.New("unknown op: " + r.Op))})
		return
	}
	ok, err := run(r)
	if err != nil {
		emit(object{"id": r.ID, "error": errorJSON(err)})
		return
	}
	emit(object{"id": r.ID, "ok": ok})
}

func main() {
	d := newDriver()
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := input.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			go answer(d, line)
		}
		if err != nil {
			break
		}
	}
	d.close()
}
