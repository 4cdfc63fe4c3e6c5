package stepinto.probe.evaluation;

import com.sun.jdi.VirtualMachine;
import stepinto.probe.program.Program;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.threads.Invoker;

final class Services {
    final Types types;
    final Calls calls;
    final Conversions conversions;
    final Operators operators;
    final Overloads overloads;

    Services(VirtualMachine machine, Invoker invoker, ValueText values, Program program) {
        types = new Types(machine, invoker, program.sources);
        calls = new Calls(types, invoker, values, program);
        conversions = new Conversions(types, calls);
        operators = new Operators(machine, conversions, calls);
        overloads = new Overloads(types);
    }
}
