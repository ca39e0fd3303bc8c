// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"math"
	"sort"
	"strings"
)

// percentile returns the least value that is not below this percentage of the values; NaN without values. It sorts them.
func percentile(values []float64, percent float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sort.Float64s(values)
	rank := int(math.Ceil(percent * float64(len(values)) / 100))
	if rank < 1 {
		rank = 1
	}
	return values[rank-1]
}

// median is the mean of the two middle values if there is no middle one; NaN without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func sum(values []float64) (sum float64) {
	for _, value := range values {
		sum += value
	}
	return sum
}

// row is what one peer showed, in all rounds.
type row struct {
	Peer       string               `json:"peer"`
	Durability string               `json:"durability"`
	Version    string               `json:"version"`
	Runs       []map[string]float64 `json:"runs"`
	Medians    map[string]float64   `json:"medians"`
	Errors     []string             `json:"errors,omitempty"`
}

// faults are counts of what should not happen. Of these the sum counts.
var faults = map[string]bool{"early": true, "repeats": true, "lost after failover": true}

// summarize fills the medians from the runs. A figure that only some runs have is the median of those.
func (r *row) summarize() {
	values := map[string][]float64{}
	for _, run := range r.Runs {
		for name, value := range run {
			values[name] = append(values[name], value)
		}
	}
	r.Medians = map[string]float64{}
	for name, list := range values {
		r.Medians[name] = median(list)
		if faults[name] {
			r.Medians[name] = sum(list)
		}
	}
}

// number prints three digits, with commas between thousands; "-" for what was not measured.
func number(value float64) string {
	if math.IsNaN(value) {
		return "-"
	}
	switch size := math.Abs(value); {
	case size < 10:
		return fmt.Sprintf("%.2f", value)
	case size < 100:
		return fmt.Sprintf("%.1f", value)
	case size >= 1000:
		step := math.Pow(10, math.Floor(math.Log10(size))-2)
		value = math.Round(value/step) * step
	}
	text := fmt.Sprintf("%.0f", value)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// column is a column of a table: a heading and one or more figures in a cell.
type column struct {
	heading string
	figures []string
}

func same(names ...string) []column {
	var columns []column
	for _, name := range names {
		columns = append(columns, column{name, []string{name}})
	}
	return columns
}

func cpu(names ...string) []column {
	var columns []column
	for _, name := range names {
		columns = append(columns, column{name, []string{name + " server us", name + " client us"}})
	}
	return columns
}

func (r *row) figure(name string) float64 {
	if value, found := r.Medians[name]; found {
		return value
	}
	return math.NaN()
}

// table prints a table in Markdown.
func table(rows []*row, columns []column) string {
	var text strings.Builder
	text.WriteString("| |")
	for _, column := range columns {
		text.WriteString(" " + column.heading + " |")
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, row := range rows {
		text.WriteString("| " + row.Peer + " |")
		for _, column := range columns {
			var cells []string
			for _, figure := range column.figures {
				cells = append(cells, number(row.figure(figure)))
			}
			if strings.Join(cells, "") == strings.Repeat("-", len(cells)) {
				cells = cells[:1]
			}
			text.WriteString(" " + strings.Join(cells, " / ") + " |")
		}
		text.WriteString("\n")
	}
	return text.String()
}

// report is the page with all tables.
func report(rows []*row, head []string) string {
	var text strings.Builder
	text.WriteString("# duetime beside its peers\n\n" + strings.Join(head, "\n") + "\n")
	rates := []string{"accept x1", "accept x64", "accept x256", "accept batches", "cancel x64", "cancel batches", "burst"}
	section := func(title string, columns []column) {
		text.WriteString("\n## " + title + "\n\n" + table(rows, columns))
	}
	text.WriteString("\n## Durability\n\n| | when it answers OK | version |\n|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", row.Peer, row.Durability, row.Version)
	}
	section("Operations per second", append(same(rates...), column{"burst size", []string{"burst size"}}))
	section("CPU per operation, us: server / client", cpu(append(rates, "steady")...))
	section("Lateness, ms: p50 / p99 / p99.9", []column{
		{"burst", []string{"burst p50 ms", "burst p99 ms", "burst p99.9 ms"}},
		{"steady", []string{"steady p50 ms", "steady p99 ms", "steady p99.9 ms"}},
		{"early, in all rounds", []string{"early"}}, {"delivered again, in all rounds", []string{"repeats"}}})
	section("Bytes per message, and a start after kill -9", []column{
		{"pending", []string{"pending"}}, {"memory", []string{"memory each"}}, {"disk", []string{"disk each"}},
		{"written, accept batches", []string{"accept batches written each"}}, {"written, a burst from accept to ack", []string{"burst written each"}},
		{"pending at the kill", []string{"pending at kill"}}, {"start to first delivery, ms", []string{"kill to first delivery ms"}}})
	for _, row := range rows {
		if !math.IsNaN(row.figure("failover ms")) {
			section("The leading process is killed", []column{{"longest time without an accepted message, ms", []string{"failover ms"}},
				{"accepted", []string{"failover accepted"}}, {"not come within " + failoverLost.String() + ", in all rounds", []string{"lost after failover"}}})
			break
		}
	}
	for _, row := range rows {
		for _, err := range row.Errors {
			fmt.Fprintf(&text, "\n%s failed: %s\n", row.Peer, err)
		}
	}
	return text.String()
}

const (
	panelWidth  = 430
	barHeight   = 18
	labelWidth  = 190
	barWidthMax = 170
)

// plot draws one panel of bars for each figure, as SVG.
func plot(rows []*row, columns []column) string {
	var text strings.Builder
	panelHeight := (len(rows) + 2) * barHeight
	lines := (len(columns) + 1) / 2
	fmt.Fprintf(&text, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+
		"\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", 2*panelWidth, lines*panelHeight)
	for i, column := range columns {
		left, top := i%2*panelWidth+8, i/2*panelHeight
		fmt.Fprintf(&text, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", left, top+barHeight-4, html.EscapeString(column.heading))
		most := 0.0
		for _, row := range rows {
			most = math.Max(most, zeroIfNaN(row.figure(column.figures[0])))
		}
		for j, row := range rows {
			y := top + (j+1)*barHeight
			value := row.figure(column.figures[0])
			width := 0.0
			if most > 0 {
				width = math.Max(0, zeroIfNaN(value)/most*barWidthMax)
			}
			colour := "#9aa5b1"
			if strings.HasPrefix(row.Peer, "duetime") {
				colour = "#1f6feb"
			}
			fmt.Fprintf(&text, `<text x="%d" y="%d">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+
				`<text x="%.1f" y="%d">%s</text>`+"\n", left, y+13, html.EscapeString(row.Peer), left+labelWidth, y+3, width,
				barHeight-5, colour, float64(left+labelWidth)+width+4, y+13, number(value))
		}
	}
	text.WriteString("</svg>\n")
	return text.String()
}

func zeroIfNaN(value float64) float64 {
	if math.IsNaN(value) {
		return 0
	}
	return value
}

var plotted = []column{
	{"accept, 64 in flight, per second", []string{"accept x64"}},
	{"accept, batches of 1,000, per second", []string{"accept batches"}},
	{"cancel, 64 in flight, per second", []string{"cancel x64"}},
	{"cancel, batches of 1,000, per second", []string{"cancel batches"}},
	{"a burst, delivered and acknowledged per second", []string{"burst"}},
	{"server CPU of the burst, us each", []string{"burst server us"}},
	{"lateness at a steady rate, p99, ms", []string{"steady p99 ms"}},
	{"start after kill -9 to first delivery, ms", []string{"kill to first delivery ms"}},
	{"memory per pending message, bytes", []string{"memory each"}},
	{"disk per pending message, bytes", []string{"disk each"}},
}
