package stepinto.probe;

/** What evaluation is built of. */
final class Services {
    final Types types;
    final Calls calls;
    final Conversions conversions;
    final Texts texts;
    final Operators operators;
    final Overloads overloads;

    Services(Types types, Invoker invoker, ValueText values) {
        this.types = types;
        this.calls = new Calls(types, invoker, values);
        this.conversions = new Conversions(types, invoker, values.heap());
        this.texts = new Texts(calls, values.heap());
        this.operators = new Operators(types.machine(), conversions, texts);
        this.overloads = new Overloads(types);
    }
}
