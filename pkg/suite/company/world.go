package company

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/rng"
)

// Pool is the part of the world that one split asks about. Entities refer to entities of their own pool only, so no fact
// and no name is shared between splits.
type Pool int

// The pools.
const (
	PoolTrain Pool = iota
	PoolVal
	PoolTest
	PoolCombo
	PoolTemplate
	PoolValCombo
	pools // how many
)

// poolShare is the share of a kind's entities in each pool, in percent.
var poolShare = [pools]int{60, 7, 15, 8, 6, 4}

// kindCount is how many entities of each kind a world holds.
var kindCount = map[Kind]int{Region: 100, Site: 140, Employee: 220, Supplier: 160, Product: 340, Customer: 220, Project: 160}

var aliasPrefix = map[Kind]string{Region: "RG", Site: "ST", Employee: "EM", Supplier: "SU", Product: "PR", Customer: "CU", Project: "PJ"}

// Entity is a named thing of the world.
type Entity struct {
	Kind   Kind
	Name   string
	Alias  string // a code that some rows and passages use
	Pool   Pool
	values map[string]string // by attribute key
	used   map[string]bool   // values borne anywhere
}

// Value returns the entity's value of an attribute key, empty when it has none.
func (e *Entity) Value(key string) string { return e.values[key] }

// Column is one column of a table.
type Column struct {
	Name string
	Type string // as SQLite declares it, constraints included
}

// Table is one table of the database.
type Table struct {
	Name    string
	Columns []Column
	Rows    [][]string
}

// create is the table's statement.
func (t Table) create() string {
	cols := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		cols[i] = c.Name + " " + c.Type
	}
	return "CREATE TABLE " + t.Name + " (" + strings.Join(cols, ", ") + ")"
}

// entities draws names, pools, values and references of all kinds.
func (w *World) entities() error {
	names := newNamer(rng.New(w.opt.Seed, "company names"), w.opt.avoid)
	w.byKind = map[Kind][]*Entity{}
	w.byName = map[string]*Entity{}
	for _, k := range kinds {
		n := kindCount[k]
		share := apportion(n, poolShare[:])
		for p := Pool(0); p < pools; p++ {
			for range share[p] {
				name, err := names.entity(k)
				if err != nil {
					return err
				}
				e := &Entity{Kind: k, Name: name, Pool: p, values: map[string]string{}, used: map[string]bool{}}
				e.Alias = fmt.Sprintf("%s%05d", aliasPrefix[k], 10000+len(w.byKind[k])*7+int(rng.Seed64(w.opt.Seed, "company alias", k)%1000))
				w.byKind[k] = append(w.byKind[k], e)
				w.byName[name] = e
				w.all = append(w.all, e)
			}
		}
	}
	for _, e := range w.all {
		r := rng.New(w.opt.Seed, "company values", e.Name)
		for i := range catalog {
			a := &catalog[i]
			if a.kind != e.Kind {
				continue
			}
			if err := w.setValue(r, e, a, names.person); err != nil {
				return err
			}
		}
		if w.opt.TwoSource && e.Kind == Product {
			if err := w.setValue(r, e, &guidePrice, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *World) setValue(r *rand.Rand, e *Entity, a *attr, person func() (string, error)) error {
	if a.typ == tRef {
		var free []*Entity
		for _, o := range w.byKind[a.ref] {
			if o.Pool == e.Pool && !e.used[o.Name] && o != e {
				free = append(free, o)
			}
		}
		if len(free) == 0 {
			return fmt.Errorf("%s %s: no %s left to refer to", e.Kind, e.Name, a.ref)
		}
		o := free[r.IntN(len(free))]
		e.values[a.key], e.used[o.Name] = o.Name, true
		return nil
	}
	v, err := a.draw(r, e.used, person)
	e.values[a.key] = v
	return err
}

// makeTables lays the sql attributes out in tables and adds orders with their items.
func (w *World) makeTables() {
	dept := Table{Name: "departments", Columns: []Column{{"name", "TEXT PRIMARY KEY"}, {"floor", "INTEGER"}, {"cost_centre", "TEXT"}}}
	r := rng.New(w.opt.Seed, "company departments")
	for i, d := range deptNames {
		dept.Rows = append(dept.Rows, []string{d, fmt.Sprint(1 + r.IntN(7)), fmt.Sprintf("CC%04d", 1000+i*13+r.IntN(13))})
	}
	w.Tables = append(w.Tables, dept)
	for _, k := range kinds {
		t := Table{Name: k.table(), Columns: []Column{{"name", "TEXT PRIMARY KEY"}, {"code", "TEXT UNIQUE"}}}
		var keys []string
		for i := range catalog {
			a := &catalog[i]
			if a.kind != k || a.store != SQL {
				continue
			}
			typ := "TEXT"
			switch {
			case a.typ == tNum:
				typ = "INTEGER"
			case a.typ == tDec:
				typ = "REAL"
			case a.typ == tRef:
				typ = "TEXT REFERENCES " + a.ref.table() + "(name)"
			case a.key == "department":
				typ = "TEXT REFERENCES departments(name)"
			}
			t.Columns = append(t.Columns, Column{a.key, typ})
			keys = append(keys, a.key)
		}
		for _, e := range w.byKind[k] {
			row := []string{e.Name, e.Alias}
			for _, key := range keys {
				row = append(row, e.values[key])
			}
			t.Rows = append(t.Rows, row)
		}
		w.Tables = append(w.Tables, t)
	}
	w.makeOrders()
}

// makeOrders gives every customer three to eight orders with one to three items of products of its pool.
func (w *World) makeOrders() {
	orders := Table{Name: "orders", Columns: []Column{{"id", "TEXT PRIMARY KEY"}, {"customer", "TEXT REFERENCES customers(name)"},
		{"order_date", "TEXT"}, {"status", "TEXT"}}}
	items := Table{Name: "order_items", Columns: []Column{{"id", "TEXT PRIMARY KEY"}, {"order_id", "TEXT REFERENCES orders(id)"},
		{"product", "TEXT REFERENCES products(name)"}, {"quantity", "INTEGER"}}}
	byPool := map[Pool][]*Entity{}
	for _, p := range w.byKind[Product] {
		byPool[p.Pool] = append(byPool[p.Pool], p)
	}
	states := []string{"shipped", "open", "returned", "paid"}
	for _, c := range w.byKind[Customer] {
		r := rng.New(w.opt.Seed, "company orders", c.Name)
		for range 3 + r.IntN(6) {
			id := fmt.Sprintf("ORD%05d", 10000+len(orders.Rows))
			date, _ := (&attr{typ: tDate}).draw(r, c.used, nil)
			orders.Rows = append(orders.Rows, []string{id, c.Name, date, states[r.IntN(len(states))]})
			for range 1 + r.IntN(3) {
				p := byPool[c.Pool][r.IntN(len(byPool[c.Pool]))]
				q, err := (&attr{typ: tNum, lo: 3, hi: 99}).draw(r, p.used, nil)
				if err != nil { // a product that is in very many orders
					continue
				}
				items.Rows = append(items.Rows, []string{fmt.Sprintf("ITM%05d", 10000+len(items.Rows)), id, p.Name, q})
			}
		}
	}
	w.Tables = append(w.Tables, orders, items)
}

// apportion splits n by the shares so that the parts add up (largest remainder; the earlier part wins a tie).
func apportion(n int, shares []int) []int {
	total := 0
	for _, s := range shares {
		total += s
	}
	out, rest := make([]int, len(shares)), n
	type rem struct{ i, r int }
	rems := make([]rem, len(shares))
	for i, s := range shares {
		out[i] = n * s / total
		rest -= out[i]
		rems[i] = rem{i, n * s % total}
	}
	slices.SortStableFunc(rems, func(a, b rem) int { return b.r - a.r })
	for i := range rest {
		out[rems[i%len(rems)].i]++
	}
	return out
}
