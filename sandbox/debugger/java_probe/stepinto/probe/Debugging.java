package stepinto.probe;

import com.sun.jdi.ThreadReference;
import com.sun.jdi.VirtualMachine;
import java.util.ArrayList;
import java.util.List;
import stepinto.probe.evaluation.Evaluator;
import stepinto.probe.launch.Debuggee;
import stepinto.probe.program.ClassFiles;
import stepinto.probe.program.FieldWrites;
import stepinto.probe.program.Program;
import stepinto.probe.program.Sources;
import stepinto.probe.program.Target;
import stepinto.probe.rendering.Causes;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.stops.*;
import stepinto.probe.threads.Diagnosis;
import stepinto.probe.threads.Invoker;
import stepinto.probe.threads.Requests;
import stepinto.probe.wire.Limits;

/** The parts that debug one program. */
final class Debugging {
    final Debuggee debuggee;
    final Program program;
    final Requests requests;
    final BreakpointTable table;
    final TestRun test;
    final Verdict verdict;
    final KeptExceptions kept;
    final TimeLimits timeLimits;
    final Escape.Handlers handlers;
    final Aftermath aftermath;
    final Stepper stepper;
    final Invoker invoker;
    final ValueText values;
    final Causes causes;
    final Evaluator evaluator;
    final Diagnosis diagnosis;
    /** To be shown with the next answer. */
    final List<String> notes = new ArrayList<>();
    /** The one that runs the test or {@code main}. */
    ThreadReference mainThread;
    /** Whether the virtual machine said that it ends in order. */
    boolean died;

    Debugging(
            VirtualMachine machine,
            Debuggee debuggee,
            Target target,
            Limits limits,
            boolean stopAtEntry) {
        this.debuggee = debuggee;
        Sources sources = new Sources(target);
        ClassFiles classFiles = new ClassFiles(target, sources);
        program = new Program(target, sources);
        requests = new Requests(machine);
        table = new BreakpointTable(sources, classFiles, requests);
        test = new TestRun(machine, requests, target, stopAtEntry);
        verdict = new Verdict(machine, requests, program);
        kept = new KeptExceptions(program, test);
        timeLimits = new TimeLimits(machine, requests);
        handlers = new Escape.Handlers(classFiles, table);
        aftermath = new Aftermath(program, classFiles, table, handlers);
        stepper = new Stepper(program, requests);
        invoker = new Invoker(machine, requests);
        values = new ValueText(limits, invoker, new FieldWrites(classFiles));
        causes = new Causes(machine, program, invoker, values);
        evaluator = new Evaluator(machine, values, invoker, program);
        diagnosis = new Diagnosis(machine, program);
        requests.enable(requests.manager().createVMDeathRequest());
    }
}
