package stepinto.probe.evaluation.values;

import stepinto.probe.program.Program;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.threads.Invoker;

/** What evaluation is built of. */
public final class Services {
    public final Types types;
    public final Calls calls;
    public final Conversions conversions;
    public final Texts texts;
    public final Operators operators;
    public final Overloads overloads;

    public Services(Types types, Invoker invoker, ValueText values, Program program) {
        this.types = types;
        this.calls = new Calls(types, invoker, values, program);
        this.conversions = new Conversions(types, invoker, values.heap());
        this.texts = new Texts(calls, values.heap());
        this.operators = new Operators(types.machine(), conversions, texts);
        this.overloads = new Overloads(types);
    }
}
