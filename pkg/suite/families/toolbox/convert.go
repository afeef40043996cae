package toolbox

import (
	"fmt"
	"math/big"

	"github.com/toolroute/toolroute/pkg/tool"
)

// unit is a unit of measure: value*scale + offset is the amount in the base unit of its kind.
type unit struct {
	name          string // as facts have it
	kind          string
	scale, offset *big.Rat
}

// unitRows are name, kind, scale and offset, and then other names. Scales are the exact definitions: the inch is 2.54 cm, the pound
// 0.45359237 kg, the gallon that of the United States.
const unitRows = `meter length 1 0 meters metre metres m
kilometer length 1000 0 kilometers kilometre kilometres km
centimeter length 0.01 0 centimeters centimetre centimetres cm
mile length 1609.344 0 miles mi
yard length 0.9144 0 yards yd
foot length 0.3048 0 feet ft
inch length 0.0254 0 inches
gram mass 1 0 grams g
kilogram mass 1000 0 kilograms kg
ton mass 1000000 0 tons tonne tonnes
pound mass 453.59237 0 pounds lb lbs
ounce mass 28.349523125 0 ounces oz
celsius temperature 1 0 c
fahrenheit temperature 5/9 -160/9 f
kelvin temperature 1 -273.15 k
liter volume 1 0 liters litre litres l
milliliter volume 0.001 0 milliliters millilitre millilitres ml
gallon volume 3.785411784 0 gallons gal
pint volume 0.473176473 0 pints
cup volume 0.2365882365 0 cups`

var units = readUnits(unitRows)

func readUnits(text string) map[string]unit {
	out := map[string]unit{}
	for _, row := range rows(text, " ") {
		u := unit{name: row[0], kind: row[1], scale: fraction(row[2]), offset: fraction(row[3])}
		for _, name := range append(row[4:], u.name) {
			out[name] = u
		}
	}
	return out
}

// fraction reads a constant of this package.
func fraction(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic(fmt.Sprintf("%q is not a number", s))
	}
	return r
}

// Units lists the units that converter knows beside currencies, by kind, in the order of its table.
func Units() map[string][]string {
	out := map[string][]string{}
	for _, row := range rows(unitRows, " ") {
		out[row[1]] = append(out[row[1]], row[0])
	}
	return out
}

// unit finds a currency, or a unit of measure where those are read.
func (w *World) unit(name string, measures bool) (unit, error) {
	k := key(name)
	if c, ok := w.currencies[k]; ok {
		rate, _ := rational(c.Rate) // index checked it
		return unit{c.Code, "currency", new(big.Rat).Inv(rate), new(big.Rat)}, nil
	}
	u, ok := units[k]
	switch {
	case !ok:
		return u, fmt.Errorf("no currency or unit %q", clip(name))
	case !measures:
		return u, fmt.Errorf("%s is not a currency, use converter", u.name)
	}
	return u, nil
}

func converter(measures bool) run {
	return func(w *World, _ *State, a arguments) (tool.Observation, error) {
		amount, err := a.number("amount")
		if err != nil {
			return failed(err)
		}
		from, err := w.unit(a.text("from"), measures)
		if err != nil {
			return failed(err)
		}
		to, err := w.unit(a.text("to"), measures)
		if err != nil {
			return failed(err)
		}
		if from.kind != to.kind {
			return failed(fmt.Errorf("%s is a %s and %s a %s: they do not convert", from.name, from.kind, to.name, to.kind))
		}
		v := new(big.Rat).Mul(amount, from.scale)
		v.Add(v, from.offset).Sub(v, to.offset)
		v.Quo(v, to.scale)
		return named(exact(amount)+" "+from.name+" =", decimal(v, convertPlaces(v)), "convert/"+exact(amount)+"/"+from.name+"/"+to.name, " "+to.name)
	}
}

// convertPlaces are the decimals of a result: 2, and 4 below 1, so that small amounts keep digits.
func convertPlaces(v *big.Rat) int {
	if new(big.Rat).Abs(v).Cmp(big.NewRat(1, 1)) < 0 {
		return 4
	}
	return 2
}
