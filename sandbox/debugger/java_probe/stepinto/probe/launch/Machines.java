package stepinto.probe.launch;

import com.sun.jdi.Bootstrap;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.VirtualMachineManager;
import com.sun.jdi.connect.spi.Connection;
import java.io.IOException;

/** The debugger interface's own loading, done beside the start of the program. */
public final class Machines implements Runnable {
    private VirtualMachineManager manager;

    @Override
    public synchronized void run() {
        if (manager == null) {
            manager = Bootstrap.virtualMachineManager();
        }
    }

    /** The virtual machine at the other end of a connection; it has shaken hands. */
    VirtualMachine create(Connection connection, Process process) throws IOException {
        run();
        return manager.createVirtualMachine(connection, process);
    }
}
